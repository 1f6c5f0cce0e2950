// Package bench measures hipq beside the floor: the least that a durable queue with a lease and an activity log has to
// write, written by bare SQL on the same machine in the same run. Absolute figures are the machine's; the ratios are hipq's.
package bench

import (
	"errors"
	"fmt"
	"sync"
)

// perTransaction is how many jobs are handed over at once in bulk, on both sides. hipq may make several transactions of it.
const perTransaction = 1000

// data is that of the i-th job, on both sides: of an ordinary size.
func data(i int) string { return fmt.Sprintf(`{"user":%d,"action":"welcome mail"}`, i) }

// together runs f for 0 to n-1 at the same time and waits for all of them.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// share runs f for 0 to n-1, by so many goroutines that each run it one after the other.
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
