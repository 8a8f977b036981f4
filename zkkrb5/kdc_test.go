//go:build linux

package zkkrb5_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

const (
	realm    = "ZKRECIPES.TEST"
	password = "s3cret"
)

// kdc is an MIT KDC with its files in a folder of the test.
type kdc struct {
	t    *testing.T
	dir  string
	addr string
	life time.Duration // of tickets
	cmd  *exec.Cmd     // nil while it is down
	done chan struct{}
}

// newKDC makes a KDC with the principals alice and carol, whose password is password, zookeeper/localhost
// and other/localhost. Only alice must authenticate to log in. The KDC is down.
func newKDC(t *testing.T, life time.Duration) *kdc {
	t.Helper()
	for _, tool := range []string{"/usr/sbin/krb5kdc", "/usr/sbin/kdb5_util", "/usr/sbin/kadmin.local", "/usr/bin/kinit", "/usr/bin/faketime"} {
		_, err := os.Stat(tool)
		require.NoError(t, err, "scripts/setup-sasl.sh installs it")
	}
	k := &kdc{t: t, dir: t.TempDir(), addr: freeAddr(t), life: life}
	_, port, _ := net.SplitHostPort(k.addr)
	k.write("krb5.conf", fmt.Sprintf(`[libdefaults]
  default_realm = %[1]s
  dns_lookup_kdc = false
  dns_lookup_realm = false
  ticket_lifetime = %[2]ds
  udp_preference_limit = 1
[realms]
  %[1]s = {
    kdc = 127.0.0.1:%[3]s
  }
`, realm, int(life.Seconds()), port))
	k.write("kdc.conf", fmt.Sprintf(`[realms]
  %[1]s = {
    database_name = %[2]s/principal
    key_stash_file = %[2]s/stash
    kdc_listen = 127.0.0.1:%[3]s
    kdc_tcp_listen = 127.0.0.1:%[3]s
    max_life = %[4]ds
    supported_enctypes = aes256-cts:normal aes128-cts:normal
  }
[logging]
  kdc = FILE:%[2]s/kdc.log
`, realm, k.dir, port, int(life.Seconds())))
	k.run("kdb5_util", "-r", realm, "create", "-s", "-P", "master")
	k.admin("addprinc +requires_preauth -pw " + password + " alice")
	k.admin("addprinc -pw " + password + " carol")
	k.admin("addprinc -randkey zookeeper/localhost")
	k.admin("addprinc -randkey other/localhost")
	k.admin("ktadd -norandkey -k " + k.path("alice.keytab") + " alice")
	k.admin("ktadd -norandkey -k " + k.path("server.keytab") + " zookeeper/localhost other/localhost")
	t.Cleanup(k.stop)
	return k
}

func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (k *kdc) path(name string) string { return filepath.Join(k.dir, name) }

func (k *kdc) conf() string { return k.path("krb5.conf") }

func (k *kdc) write(name, text string) {
	require.NoError(k.t, os.WriteFile(k.path(name), []byte(text), 0o600))
}

// command returns a command of MIT Kerberos for this KDC.
func (k *kdc) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+k.conf(), "KRB5_KDC_PROFILE="+k.path("kdc.conf"),
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	cmd.Path = "/usr/sbin/" + name
	if _, err := os.Stat(cmd.Path); err != nil {
		cmd.Path = "/usr/bin/" + name
	}
	cmd.Err = nil
	return cmd
}

func (k *kdc) run(name string, args ...string) {
	k.t.Helper()
	out, err := k.command(name, args...).CombinedOutput()
	require.NoError(k.t, err, "%s %s: %s", name, strings.Join(args, " "), out)
}

func (k *kdc) admin(query string) { k.t.Helper(); k.run("kadmin.local", "-r", realm, "-q", query) }

// kinit gets a ticket for alice into a credentials cache, and returns its file.
func (k *kdc) kinit() string {
	k.t.Helper()
	cache := k.path("cache")
	k.run("kinit", "-c", cache, "-k", "-t", k.path("alice.keytab"), "alice")
	return cache
}

// kinitAgain gets another ticket for kinit's cache each second, until the end of the test.
func (k *kdc) kinitAgain(t *testing.T) {
	over, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(over)
		<-done
	})
	go func() {
		defer close(done)
		for {
			_ = k.command("kinit", "-c", k.path("cache"), "-k", "-t", k.path("alice.keytab"), "alice").Run()
			select {
			case <-time.After(time.Second):
			case <-over:
				return
			}
		}
	}()
}

// start starts the KDC, whose clock is ahead by so much.
func (k *kdc) start(ahead time.Duration) {
	k.t.Helper()
	args := []string{"-n", "-r", realm, "-P", k.path("pid")}
	k.cmd = k.command("krb5kdc", args...)
	if ahead != 0 {
		k.cmd = k.command("faketime", append([]string{"-f", fmt.Sprintf("+%ds", int(ahead.Seconds())), "/usr/sbin/krb5kdc"}, args...)...)
	}
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	require.NoError(k.t, k.cmd.Start())
	k.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		cmd.Wait()
	}(k.cmd, k.done)
	harness.Eventually(k.t, "the KDC listens", func() bool {
		nc, err := new(net.Dialer).DialContext(context.Background(), "tcp", k.addr)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

// signal sends a signal to the KDC.
func (k *kdc) signal(s syscall.Signal) { require.NoError(k.t, k.cmd.Process.Signal(s)) }

func (k *kdc) stop() {
	if k.cmd == nil {
		return
	}
	syscall.Kill(-k.cmd.Process.Pid, syscall.SIGKILL)
	<-k.done
	k.cmd = nil
}
