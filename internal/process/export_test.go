//go:build !windows

package process

const UsualFiles = usualFiles

var KeepListed = keepListed
