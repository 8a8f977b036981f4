package line

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Near the end of ZooKeeper's counter the same number comes again and again, and
// negative ones sort before the holder's. A place beyond the limit must not be granted,
// not even alone. Its caller steps aside: it deletes the place, waits until the line is
// empty, deletes the line and joins again. The numbers then begin at zero. The protocol
// was model-checked.

// exhausted is the error of a join that got a number beyond the limit. Its place is
// deleted, or will be. For recipes that do not step aside it is ErrExhausted.
type exhausted struct{ *Place }

func (x *exhausted) Error() string { return errs.ErrExhausted.Error() + ": " + x.Name }

func (x *exhausted) Unwrap() error { return errs.ErrExhausted }

// cannotReset returns the error of a line that cannot begin anew because of err. The end
// of ctx or of the session is no such obstacle.
func cannotReset(ctx context.Context, err error) error {
	if errs.IsContextErr(ctx, err) || errors.Is(err, zkconn.ErrSessionOver) {
		return err
	}
	return fmt.Errorf("%w, and it cannot be deleted to begin anew: %w", errs.ErrExhausted, err)
}

// withdrawExhausted deletes a place beyond the limit, in the background if need be, and returns
// the error of its join.
func (p *Place) withdrawExhausted(ctx context.Context) error {
	err := p.Session.Multi(ctx, &zk.DeleteRequest{Path: p.Path, Version: -1}).Err()
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		p.Line.Client.Tasks.Start(p.Withdraw)
		if !zkconn.Transient(err) {
			return cannotReset(ctx, err)
		}
	}
	return &exhausted{p}
}

// rollOver returns nil if a join that failed with err can be tried again, because the line, whose
// numbers were used up, is gone. It deletes the line if that is empty. Otherwise it calls wait with
// the places that stand in it, and looks again. Everyone aside must do so: those who leave may die
// before they delete the line. Any other err is returned.
func (l *Line) rollOver(ctx context.Context, err error, wait func(context.Context, *exhausted, []layout.PlaceName) error) error {
	var x *exhausted
	if !errors.As(err, &x) {
		return err
	}
	for {
		on := x.Session.On()
		children, ms, stat, err := l.look(ctx, x.Session)
		isHeld := slices.Contains(children, HeldName)
		others := slices.DeleteFunc(children, func(name string) bool { return name == l.ExtraChild || name == HeldName })
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != x.LineCzxid:
			l.forget()
			return nil
		case err != nil:
			return cannotReset(ctx, err)
		case len(ms) > 0:
			err = wait(ctx, x, ms)
		case len(others) > 0:
			return cannotReset(ctx, fmt.Errorf("%q stands in it", others[0]))
		default:
			err = x.deleteLine(ctx, on, stat, isHeld)
		}
		if err != nil {
			return err
		}
	}
}

// awaitLast waits until the last of the places goes. A watch on the line would fire with
// every join.
func awaitLast(ctx context.Context, x *exhausted, ms []layout.PlaceName) error {
	w, err := x.Session.Watch(ctx, x.Line.Abs()+"/"+slices.MaxFunc(ms, layout.PlaceName.Compare).Name)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return cannotReset(ctx, err)
	}
	return zkconn.Until(ctx, x.Session.Session, w.Fired())
}

// locked is what TryLock does instead of awaitLast.
func locked(context.Context, *exhausted, []layout.PlaceName) error { return errs.ErrLocked }

// deleteLine deletes the line, in which no place stood when it had that Stat, on that connection. If
// somebody has joined since, or made the line anew, it must not be deleted: it has children, or another
// version. If the last holder went without a release, the new line says so, too.
func (x *exhausted) deleteLine(ctx context.Context, on session.Connection, stat *zk.Stat, isHeld bool) error {
	l := x.Line
	ops := []any{&zk.DeleteRequest{Path: l.Abs(), Version: stat.Version}}
	children := stat.NumChildren
	if isHeld {
		children--
		acl, held := x.Session.ACL(), l.Abs()+"/"+HeldName
		ops = []any{
			&zk.DeleteRequest{Path: held, Version: -1}, ops[0],
			&zk.CreateRequest{Path: l.Abs(), Data: layout.Record(l.Recipe, fingerprintOf(acl, 0), ""), Acl: acl, Flags: zk.FlagContainer},
			&zk.CreateRequest{Path: held, Data: wentAway, Acl: acl},
		}
	}
	if children > 0 { // the extra child, which nobody uses without a place
		path := l.Abs() + "/" + l.ExtraChild
		extra, err := x.Session.Exists(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case err == nil && extra.EphemeralOwner == 0: // somebody's own
			err = fmt.Errorf("%q stands in it and is not ephemeral", l.ExtraChild)
		}
		if err != nil {
			return cannotReset(ctx, err)
		}
		ops = slices.Insert(ops, 0, any(&zk.DeleteRequest{Path: path, Version: extra.Version}))
	}
	err := multiOn(ctx, x.Session, on, ops...).Err()
	switch {
	case err == nil:
		l.Client.Log(slog.LevelInfo, "sequence numbers of a line were used up; it was deleted and begins anew", "line", l.Abs())
		return nil
	case errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrBadVersion): // or this server lags
		return x.Session.Sync(ctx, l.Abs())
	case errors.Is(err, zk.ErrNoNode), zkconn.Transient(err):
		return nil
	}
	return cannotReset(ctx, err)
}
