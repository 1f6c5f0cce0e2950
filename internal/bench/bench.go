// Package bench measures hipq against the floor: the least that a durable queue with leases and an activity log must
// write, in bare SQL on the same machine in the same run. Absolute figures depend on the machine; the ratios on hipq.
package bench

import (
	"errors"
	"fmt"
	"sync"
)

// perTransaction is how many jobs each side enqueues at once in bulk. hipq may split them into several transactions.
const perTransaction = 1000

// data is the i-th job's data on both sides, of ordinary size.
func data(i int) string { return fmt.Sprintf(`{"user":%d,"action":"welcome mail"}`, i) }

// together runs f for 0 to n-1 concurrently, and waits for all.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// share runs f for 0 to n-1, divided among so many goroutines.
func share(n, goroutines int, f func(i int) error) error {
	return together(goroutines, func(first int) error {
		for i := first; i < n; i += goroutines {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	})
}
