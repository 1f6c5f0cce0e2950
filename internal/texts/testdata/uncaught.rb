def deliver(to)
  raise ArgumentError, "no route to #{to}"
end

puts "sending"
deliver("example.org")
