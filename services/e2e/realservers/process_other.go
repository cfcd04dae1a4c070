//go:build unix && !linux

package realservers

import "syscall"

// tied can't tie a child to this process where there is no Pdeathsig: a killed test leaves its servers.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
