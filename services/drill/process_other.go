//go:build unix && !linux

package drill

import "syscall"

// tied can't tie a child to this process where there is no Pdeathsig: a drill that dies by kill -9 leaves its Redis.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
