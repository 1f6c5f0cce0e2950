package main

import "fmt"

func send(to string) { panic(fmt.Errorf("no route to %s:\nit is down", to)) }

func main() {
	fmt.Println("sending")
	send("example.org")
}
