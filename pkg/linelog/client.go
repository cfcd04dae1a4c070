package linelog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TLSConfig says how to speak TLS to the brokers. Every field may be empty: then the system's roots are trusted, no
// certificate is shown, and the server's name is the address dialled.
type TLSConfig struct {
	CAFile     string // PEM
	CertFile   string // PEM; with KeyFile
	KeyFile    string // PEM; with CertFile
	ServerName string
}

// SASLConfig says who we are to the brokers.
type SASLConfig struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	User      string
	Password  string
}

const (
	dialTimeout = 2 * time.Second
	// answerTimeout is how much longer than asked for a broker may take before its connection is given up. It is short,
	// since a hung connection is what stands between us and the brokers' return.
	answerTimeout = 3 * time.Second
	maxBackoff    = 500 * time.Millisecond
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Option changes how a Log connects.
type Option func(*options)

type options struct{ dial dialFunc }

// WithDialer replaces how connections to brokers are made; for tests that cut or fake the network.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(o *options) { o.dial = dial }
}

// baseOpts are what every client of one Log has in common.
func baseOpts(cfg Config, o options, logger *zap.Logger) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		kgo.DialTimeout(dialTimeout),
		kgo.RequestTimeoutOverhead(answerTimeout),
		kgo.RetryBackoffFn(backoff),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(30 * time.Second),
		kgo.DisableClientMetrics(),
		kgo.WithLogger(newClientLogger(logger)),
	}
	var tlsConf *tls.Config
	if cfg.TLS != nil {
		var err error
		if tlsConf, err = cfg.TLS.load(); err != nil {
			return nil, err
		}
	}
	switch {
	case o.dial != nil:
		opts = append(opts, kgo.Dialer(withTLS(o.dial, tlsConf)))
	case tlsConf != nil:
		opts = append(opts, kgo.DialTLSConfig(tlsConf))
	}
	if cfg.SASL != nil {
		mech, err := cfg.SASL.mechanism()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(mech))
	}
	return opts, nil
}

// backoff grows from 25 ms to maxBackoff with the number of failures, ± 20 %.
func backoff(fails int) time.Duration {
	d := min(maxBackoff, 25*time.Millisecond<<min(max(fails-1, 0), 10))
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

func (c *TLSConfig) load() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the brokers' CA: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the brokers' CA file %s holds no certificate", c.CAFile)
		}
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, errors.New("a client certificate needs both its file and its key's file")
	}
	if c.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load the client certificate for the brokers: %w", err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}

func withTLS(dial dialFunc, conf *tls.Config) dialFunc {
	if conf == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conf := conf.Clone()
		if conf.ServerName == "" {
			conf.ServerName, _, _ = net.SplitHostPort(address)
		}
		conn := tls.Client(raw, conf)
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return conn, nil
	}
}

func (c *SASLConfig) mechanism() (sasl.Mechanism, error) {
	if c.User == "" || c.Password == "" {
		return nil, errors.New("SASL needs a user and a password")
	}
	switch c.Mechanism {
	case "PLAIN":
		return plain.Auth{User: c.User, Pass: c.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("the SASL mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, not %.40q", c.Mechanism)
}

// clientLogger passes franz-go's warnings and errors on, each message at most once in ten seconds: with the brokers away
// it says the same thing many times a second.
type clientLogger struct{ logger *zap.Logger }

func newClientLogger(logger *zap.Logger) clientLogger {
	return clientLogger{logger.Named("kafka").WithOptions(sampled(), zap.AddCallerSkip(1))}
}

// sampled lets each message through once in ten seconds.
func sampled() zap.Option {
	return zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, 10*time.Second, 1, 0)
	})
}

func (clientLogger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (l clientLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	zl := zapcore.WarnLevel
	if level == kgo.LogLevelError {
		zl = zapcore.ErrorLevel
	}
	ce := l.logger.Check(zl, msg)
	if ce == nil {
		return
	}
	fields := make([]zap.Field, 0, len(keyvals)/2)
	for i := 0; i+1 < len(keyvals); i += 2 {
		if k, ok := keyvals[i].(string); ok {
			fields = append(fields, zap.Any(k, keyvals[i+1]))
		}
	}
	ce.Write(fields...)
}
