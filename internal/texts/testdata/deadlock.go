package main

import "sync"

func main() {
	var all sync.WaitGroup
	all.Add(1)
	go func() { select {} }()
	all.Wait()
}
