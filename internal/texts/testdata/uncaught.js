function send(to) {
  throw new TypeError("no route to " + to);
}
console.log("sending");
send("example.org");
