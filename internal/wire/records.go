package wire

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// go-zookeeper decodes replies with reflection and trusts their lengths: it
// allocates a vector of as many elements as its count says, panics where a
// boolean is missing, and reads the fields of a short record from what an earlier
// frame has left in its buffer. So it is shown no record that was not checked.

// checkRecord returns an error unless record begins with what a successful reply
// to op consists of. Bytes that follow are ignored, as by other clients.
func checkRecord(op int32, record []byte) error {
	d := jute.NewDecoder(record)
	switch op {
	case jute.OpGetData:
		d.Buffer()
		d.Stat()
	case jute.OpExists, jute.OpSetData:
		d.Stat()
	case jute.OpGetChildren, jute.OpGetChildren2:
		for n := d.Count(); n > 0 && d.Err == nil; n-- {
			d.Bytes()
		}
		if op == jute.OpGetChildren2 {
			d.Stat()
		}
	case jute.OpCreate, jute.OpCreateContainer:
		d.Bytes()
	case jute.OpDelete, jute.OpSetWatches, jute.OpClose:
	default:
		return fmt.Errorf("reply to %s, which this client does not send", jute.OpName(op))
	}
	if d.Err != nil {
		return fmt.Errorf("malformed reply to %s: %w", jute.OpName(op), d.Err)
	}
	return nil
}
