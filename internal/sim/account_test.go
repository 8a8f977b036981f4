package sim

import (
	"fmt"
	"strings"
)

// checkAccounts checks that each Client counts the ephemeral znodes that its session has on
// the server, no more and no fewer. It must be called at rest. If an operator deletes a queue,
// its receipts count until they are used again.
func (w *world) checkAccounts() {
	tree := w.srv.Tree()
	for i, p := range w.processes {
		status := p.client().Status()
		owner := fmt.Sprintf(" ephemeral=0x%x", status.Session)
		znodes, bytes := 0, 0
		for line := range strings.Lines(tree) {
			if strings.Contains(line, owner+" ") || strings.Contains(line, owner+"\n") {
				znodes++
				bytes += 4 + strings.IndexByte(line, ' ')
			}
		}
		if status.ZnodeBytes < bytes || status.ZnodeBytes > bytes && !w.operator {
			w.log.violation("client %d counts %d znodes of %d bytes, and has %d of %d\n%s", i, status.Znodes, status.ZnodeBytes, znodes, bytes, tree)
		}
	}
}
