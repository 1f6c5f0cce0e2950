def total(order)
  order.amuont
end

total(Struct.new(:amount).new(1))
