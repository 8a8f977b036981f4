// Package service has code of docs/service.md.
package service

import (
	"net/http"
	"sync/atomic"

	"github.com/zkrecipes/zkrecipes"
)

// Health answers a supervisor's probes. Start it before Dial, which may block.
type Health struct {
	Client atomic.Pointer[zkrecipes.Client] // nil until Dial has returned
}

// Alive answers the liveness probe: it says that the process runs, and asks nobody else.
func (h *Health) Alive(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusOK)
}

// Ready answers the readiness probe. It sends nothing.
func (h *Health) Ready(w http.ResponseWriter, _ *http.Request) {
	if client := h.Client.Load(); client == nil || !client.Status().Connected {
		http.Error(w, "not connected to ZooKeeper", http.StatusServiceUnavailable)
	}
}
