package dbtest

import (
	"fmt"
	"os"
	osuser "os/user"
	"strconv"
	"syscall"
)

// user returns the attributes of a process that runs as the user of that name if this one runs as
// root, as the databases demand, and ends with this process. The directory becomes the user's.
func user(name, dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		return attr, nil
	}
	u, err := osuser.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("%w: the package of the database creates it", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, os.Chown(dir, uid, gid)
}
