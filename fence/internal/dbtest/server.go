// Package dbtest runs real databases for the tests of package fence: Debian's PostgreSQL and
// MariaDB, each as a process of its own on a free port of the loopback, with its data in a folder
// of its own, and SQLite in the process.
package dbtest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // database/sql drivers
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/zkrecipes/zkrecipes/fence"
)

// Database is a database that runs.
type Database struct {
	Name    string
	Dialect fence.Dialect
	Addr    string // empty for SQLite

	driver string
	dsn    func(addr string, settings map[string]string) string
	stop   func()
}

// Start starts the database of that name, postgresql, mariadb or sqlite, and waits until it
// serves. Close stops it and deletes its data.
func Start(ctx context.Context, name string) (*Database, error) {
	dir, err := os.MkdirTemp("", "fence-"+name+"-")
	if err != nil {
		return nil, err
	}
	var d *Database
	switch name {
	case "postgresql":
		d, err = startPostgreSQL(ctx, dir)
	case "mariadb":
		d, err = startMariaDB(ctx, dir)
	case "sqlite":
		d = sqlite(dir)
	default:
		err = fmt.Errorf("no database %q: want postgresql, mariadb or sqlite", name)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	d.Name = name
	stop := d.stop
	d.stop = func() {
		if stop != nil {
			stop()
		}
		os.RemoveAll(dir)
	}
	return d, nil
}

// Close stops the database and deletes its data.
func (d *Database) Close() { d.stop() }

// DSN returns the driver and its data source name, by way of a proxy at addr, or directly if that
// is empty. The settings are those of the database, for each connection.
func (d *Database) DSN(addr string, settings map[string]string) (driver, dsn string) {
	if addr == "" {
		addr = d.Addr
	}
	return d.driver, d.dsn(addr, settings)
}

// Waiting returns how many transactions wait for a lock. With SQLite, which does not tell, it
// returns -1.
func (d *Database) Waiting(ctx context.Context, db *sql.DB) (n int, err error) {
	query := "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
	switch d.Dialect {
	case fence.SQLite:
		return -1, nil
	case fence.MySQL:
		query = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
	}
	err = db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

func startPostgreSQL(ctx context.Context, dir string) (*Database, error) {
	bin, err := newest("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	who, err := user("postgres", dir)
	if err != nil {
		return nil, err
	}
	initialize := exec.CommandContext(ctx, filepath.Join(filepath.Dir(bin), "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
	initialize.SysProcAttr = who
	initialize.Dir = dir
	if out, err := initialize.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	d := &Database{Dialect: fence.PostgreSQL, Addr: "127.0.0.1:" + port, driver: "pgx"}
	d.dsn = func(addr string, settings map[string]string) string {
		return "postgres://postgres@" + addr + "/postgres?sslmode=disable" + query("&", settings)
	}
	server := exec.Command(bin, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	return d, d.run(ctx, server, who, dir, syscall.SIGINT)
}

func startMariaDB(ctx context.Context, dir string) (*Database, error) {
	bin, err := newest("/usr/sbin/mariadbd")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	who, err := user("mysql", dir)
	if err != nil {
		return nil, err
	}
	initialize := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+data,
		"--auth-root-authentication-method=normal")
	initialize.SysProcAttr = who
	initialize.Dir = dir
	if out, err := initialize.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	d := &Database{Dialect: fence.MySQL, Addr: "127.0.0.1:" + port, driver: "mysql"}
	d.dsn = func(addr string, settings map[string]string) string {
		return "root@tcp(" + addr + ")/test" + query("?", settings)
	}
	server := exec.Command(bin, "--no-defaults", "--datadir="+data, "--port="+port, "--bind-address=127.0.0.1",
		"--socket="+filepath.Join(dir, "sock"), "--pid-file="+filepath.Join(dir, "pid"))
	return d, d.run(ctx, server, who, dir, syscall.SIGTERM)
}

func sqlite(dir string) *Database {
	return &Database{Dialect: fence.SQLite, driver: "sqlite", dsn: func(_ string, settings map[string]string) string {
		dsn := "file:" + filepath.Join(dir, "db") + "?_pragma=journal_mode(WAL)"
		for name, value := range settings {
			dsn += "&_pragma=" + name + "(" + value + ")"
		}
		return dsn
	}}
}

func query(sign string, settings map[string]string) string {
	values := url.Values{}
	for name, value := range settings {
		values.Set(name, value)
	}
	if len(values) == 0 {
		return ""
	}
	return sign + values.Encode()
}

// run starts the server and waits until it answers.
func (d *Database) run(ctx context.Context, server *exec.Cmd, who *syscall.SysProcAttr, dir string, stop syscall.Signal) error {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	server.SysProcAttr, server.Dir, server.Stdout, server.Stderr = who, dir, log, log
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	d.stop = func() {
		server.Process.Signal(stop)
		ended <- <-ended
	}
	db, err := sql.Open(d.DSN("", nil))
	if err != nil {
		d.stop()
		return err
	}
	defer db.Close()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case exit := <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s: %v\n%s", server.Path, exit, text)
		case <-ctx.Done():
			d.stop()
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// newest returns the one of the files that match whose version is the highest.
func newest(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no %s: scripts/setup-databases.sh installs it", pattern)
	}
	return slices.MaxFunc(found, func(a, b string) int { // 15 is higher than 9
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}), nil
}

// freePort returns a port of the loopback that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
