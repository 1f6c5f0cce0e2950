package main

type order struct{ total int }

func main() {
	defer func() {
		panic(recover())
	}()
	var o *order
	println(o.total)
}
