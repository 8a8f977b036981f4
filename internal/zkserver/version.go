package zkserver

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Versions lists the versions of ZooKeeper that can be run, the default first.
// Which release of 3.9 and 3.8 runs depends on where it comes from: with Debian's
// packages it is 3.9.3 and 3.8.0.
var Versions = []string{"3.9", "3.8", OnRequest}

// OnRequest is a release that runs only if ZK_VERSION names it. Debian has it in its
// unstable release only, where another one may replace it at any time.
const OnRequest = "3.9.6"

// Fetch gets a version, so that no later Start has to wait for it. An error that
// wraps errors.ErrUnsupported means that this machine's way to run ZooKeeper
// cannot run that version, or that ZK_VERSION does not select it. Any other error
// means that it should be possible, and failed.
func (p *Provider) Fetch(ctx context.Context, version string) error {
	if p.launcher == nil {
		return fmt.Errorf("zkserver: fetch %s: %s: %w", version, p, errors.ErrUnsupported)
	}
	switch only := os.Getenv("ZK_VERSION"); {
	case only != "" && only != version:
		return fmt.Errorf("zkserver: fetch %s: excluded by ZK_VERSION=%s: %w", version, only, errors.ErrUnsupported)
	case only == "" && version == OnRequest:
		return fmt.Errorf("zkserver: fetch %s: runs only with ZK_VERSION=%[1]s: %w", version, errors.ErrUnsupported)
	}
	if _, err := p.launcher.call(ctx, Request{Op: OpFetch, Version: version}); err != nil {
		return fmt.Errorf("zkserver: fetch %s: %w", version, err)
	}
	return nil
}
