package demo

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// Remove deletes what a run has left in ZooKeeper.
func Remove(env Env) error {
	conn, events, err := zk.Connect(env.Servers, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer func() {
		conn.Close()
		for range events {
		}
	}()
	return remove(conn, env.Prefix)
}

// remove deletes a znode and all below it. Others may delete them too at the same
// time.
func remove(conn *zk.Conn, path string) error {
	names, _, err := conn.Children(path)
	for _, name := range names {
		if err == nil {
			err = remove(conn, path+"/"+name)
		}
	}
	if err == nil {
		err = conn.Delete(path, -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
