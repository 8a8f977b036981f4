package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// counterNearEnd sets a znode's counter of creates on a real server. Short of two
// billion creates there is only one way: while the server is down, add
// transactions to its log. They create a child, with the number that the counter
// had before, and delete it again.
//
// It needs access to the server's files, and returns errors.ErrUnsupported if
// they are in a container. Then the case runs only on zktest, with the same
// assertions.
func counterNearEnd(node *zkserver.Node) func(path string, next int32) error {
	return func(path string, next int32) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		dir, err := dataDir(ctx, node)
		if err != nil {
			return err
		}
		status, err := node.Command(ctx, "srvr")
		if err != nil {
			return err
		}
		found := regexp.MustCompile(`(?m)^Zxid: 0x([0-9a-f]+)$`).FindStringSubmatch(status)
		if found == nil {
			return fmt.Errorf("no zxid in %q", status)
		}
		last, err := strconv.ParseInt(found[1], 16, 64)
		if err != nil {
			return err
		}
		if err := node.Kill(ctx); err != nil {
			return err
		}
		// org.apache.zookeeper.server.persistence.FileTxnLog
		log := jute.AppendInt64(jute.AppendInt32([]byte("ZKLG"), 2), 0)
		child := jute.AppendString(nil, path+"/seed")
		create := jute.AppendACLs(jute.AppendNullableBuffer(child[:len(child):len(child)], nil), Open)
		create = jute.AppendInt32(jute.AppendBool(create, false), next)
		log = appendTransaction(log, last+1, jute.OpCreate, create)
		log = appendTransaction(log, last+2, jute.OpDelete, child)
		name := filepath.Join(dir, fmt.Sprintf("log.%x", last+1))
		if err := os.WriteFile(name, log, 0o644); err != nil {
			return err
		}
		return node.Restart(ctx)
	}
}

func appendTransaction(log []byte, zxid int64, op int32, record []byte) []byte {
	b := jute.AppendInt32(jute.AppendInt64(nil, 0), 0) // session, xid
	b = jute.AppendInt64(jute.AppendInt64(b, zxid), time.Now().UnixMilli())
	b = append(jute.AppendInt32(b, op), record...)
	log = jute.AppendBuffer(jute.AppendInt64(log, int64(adler32.Checksum(b))), b)
	return append(log, 'B')
}

// dataDir returns the directory of the server's transaction log.
func dataDir(ctx context.Context, node *zkserver.Node) (string, error) {
	conf, err := node.Command(ctx, "conf")
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^dataLogDir=(.+)$`).FindStringSubmatch(conf)
	if found == nil {
		return "", fmt.Errorf("no dataLogDir in %q", conf)
	}
	// A server writes a snapshot when it starts.
	if snapshots, _ := filepath.Glob(filepath.Join(found[1], "snapshot.*")); len(snapshots) == 0 {
		return "", fmt.Errorf("the server's files are not on this machine: %w", errors.ErrUnsupported)
	}
	return found[1], nil
}
