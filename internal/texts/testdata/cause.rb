def connect
  Integer("x")
end

def store
  connect
rescue ArgumentError
  raise "the order can't be stored"
end

store
