package linelog_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/soonbeon/soonbeon/pkg/linelog"
)

// selfSigned makes a certificate for 127.0.0.1 and a file that holds it as a CA.
func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, path
}

func TestTLSAndSASL(t *testing.T) {
	cert, ca := selfSigned(t)
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		for _, dialer := range []string{"own", "given"} {
			t.Run(mechanism+" "+dialer, func(t *testing.T) {
				cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(mechanism, "u", "right"),
					kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cluster.Close)
				open := func(ca, password string) *linelog.Log {
					var opts []linelog.Option
					if dialer == "given" {
						opts = append(opts, linelog.WithDialer((&net.Dialer{}).DialContext))
					}
					log, err := linelog.Open(linelog.Config{
						Brokers: cluster.ListenAddrs(), TLS: &linelog.TLSConfig{CAFile: ca},
						SASL: &linelog.SASLConfig{Mechanism: mechanism, User: "u", Password: password},
					}, nil, nil, opts...)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(log.Close)
					return log
				}
				log := open(ca, "right")
				ensure(t, log, main)
				fill(t, writer(t, log), main, 1)
				if err := open(ca, "wrong").Ping(soon(t)); err == nil {
					t.Error("the wrong password was taken")
				}
				if err := open("", "right").Ping(soon(t)); err == nil {
					t.Error("an unknown certificate was taken")
				}
			})
		}
	}
}
