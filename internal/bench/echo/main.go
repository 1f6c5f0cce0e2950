// Command echo is a compiled stream program that reports each job as finished.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var job struct {
			ID int64 `json:"id"`
		}
		if err := json.Unmarshal(line, &job); err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(out, `{"id":%d,"outcome":"finished"}`+"\n", job.ID)
		if in.Buffered() == 0 {
			_ = out.Flush()
		}
	}
}
