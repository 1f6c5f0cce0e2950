puts "sending"
def deliver(to)
  raise "no route to #{to}"
end

begin
  deliver("example.org")
rescue => e
  warn e.full_message(highlight: false)
end
puts "no mirror is up"
exit 75
