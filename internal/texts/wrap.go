package texts

import "fmt"

// Wrap says what an error has kept from being done, without a verb for it: "find the queues". No error is none.
func Wrap(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err)
}
