package standalone

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/soonbeon/soonbeon/pkg/pass"
)

// dataVersion is that of the data folder's layout: VERSION, keys and operator.token (mode 0600), witness.json, log/ (the embedded log's own).
const dataVersion = "1"

// openData makes the folder, or checks that this program understands it. Nothing is touched in one that it does not.
func openData(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	err := checkVersion(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if other, _ := os.ReadDir(dir); len(other) > 0 {
		return fmt.Errorf("the data folder %s holds other files and was not made by this program; choose another with --data", dir)
	}
	return os.WriteFile(versionFile(dir), []byte(dataVersion+"\n"), 0o600)
}

func versionFile(dir string) string { return filepath.Join(dir, "VERSION") }

// checkVersion refuses a folder of another version; fs.ErrNotExist where the folder says none.
func checkVersion(dir string) error {
	b, err := os.ReadFile(versionFile(dir))
	if err != nil {
		return fmt.Errorf("reading the data folder's version: %w", err)
	}
	if v := strings.TrimSpace(string(b)); v != dataVersion {
		return fmt.Errorf("the data folder %s has version %.20q and this program knows %s: it was not touched; use the newer program, or another folder with --data", dir, v, dataVersion)
	}
	return nil
}

// ownKeys reads the folder's keys, or makes them on the first start.
func ownKeys(dir string) (string, error) {
	file := filepath.Join(dir, "keys")
	b, err := os.ReadFile(file)
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the keys: %w", err)
	}
	keys, err := pass.GenerateKeys()
	if err != nil {
		return "", fmt.Errorf("making keys: %w", err)
	}
	if err := writeSecret(file, keys); err != nil {
		return "", fmt.Errorf("writing the keys: %w", err)
	}
	return keys, nil
}

// writeSecret writes a file that its owner alone may read, whole or not at all: a key that is half written would sign receipts
// that nobody can check after a restart.
func writeSecret(file, secret string) error {
	tmp := file + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, file)
	}
	return err
}

// OperatorToken is the file in the data folder that holds the secret of the operator on this machine.
const OperatorToken = "operator.token"

// ownOperator reads the secret of the folder's own operator, or makes it on the first start, and returns it as a credential.
func ownOperator(dir string) (string, error) {
	file := filepath.Join(dir, OperatorToken)
	b, err := os.ReadFile(file)
	secret := strings.TrimSpace(string(b))
	if errors.Is(err, fs.ErrNotExist) {
		secret = rand.Text() + rand.Text()
		err = writeSecret(file, secret)
	}
	if err != nil {
		return "", fmt.Errorf("the operator's secret in the data folder: %w", err)
	}
	return "local:" + secret, nil
}

// idSecret is what is given, or derived from the oldest key, which lasts longest when a new one is put before it.
func idSecret(given, keys string) ([]byte, error) {
	if given != "" {
		return []byte(given), nil
	}
	last := keys[strings.LastIndexByte(keys, ',')+1:]
	return hkdf.Key(sha256.New, []byte(strings.TrimSpace(last)), nil, "soonbeon visitor ids v1", 32)
}

// sealer hides and opens the seeds of draws with the deployment's secret; nil where the process was given nothing to make one from.
func sealer(given, keys string) *pass.Sealer {
	if given == "" && keys == "" {
		return nil
	}
	secret, err := idSecret(given, keys)
	if err != nil {
		return nil
	}
	return pass.NewSealer(secret)
}
