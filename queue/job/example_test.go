package job_test

import (
	"fmt"

	"github.com/hipq/hipq/queue/job"
)

type Receipt struct {
	Order int    `json:"order"`
	To    string `json:"to"`
}

// SendReceipt is a job type whose data are a Receipt.
const SendReceipt job.Kind[Receipt] = "send_receipt"

func ExampleKind() {
	j, err := SendReceipt.New(Receipt{Order: 4711, To: "a@example.org"})
	if err != nil {
		panic(err) // the payload isn't JSON, or is too large
	}
	j.Key = "order-4711" // set any other field too
	fmt.Println(j.Type, j.Key, j.Data)
	// Output: send_receipt order-4711 {"order":4711,"to":"a@example.org"}
}

func ExampleKind_Read() {
	r, err := SendReceipt.Read(&job.Job{Type: "send_receipt", Data: `{"order": 4711, "newer": true}`})
	fmt.Println(r.Order, err)
	_, err = SendReceipt.Read(&job.Job{Type: "send_receipt", Data: `{"order": "4711"}`})
	fmt.Println(err)
	// Output:
	// 4711 <nil>
	// not a valid job: job_data: json: cannot unmarshal string into Go struct field Receipt.order of type int
}
