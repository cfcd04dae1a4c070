package drill

import "syscall"

// tied makes the kernel kill the child when the thread that started it ends, which includes the death of this process by
// kill -9. Its own process group keeps a terminal's Ctrl-C from it: the drill ends it.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
