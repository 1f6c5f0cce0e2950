// Package policy is what hipq decides about jobs: what may follow what, what an attempt makes of its job, when it runs again, what
// limits and rates leave. It knows neither SQL nor a clock: who asks says what time it is.
package policy

// Allows says whether a limit has room for a factor beside what is used.
func Allows(limit, used, factor int) bool { return used == 0 || used+factor <= limit }
