package texts

// Map is what f makes of each of some values.
func Map[T, R any](all []T, f func(T) R) []R {
	made := make([]R, len(all))
	for i, v := range all {
		made[i] = f(v)
	}
	return made
}
