package realservers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// KafkaVersion is the Apache Kafka that runs on the local Java.
const KafkaVersion = "4.2.0"

// pom names Kafka's broker (46 jars, 43 MB) and a logger that writes to standard error without configuration.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>soonbeon</groupId><artifactId>realservers</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + KafkaVersion + `</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
`

// FetchKafka returns the folder of Kafka's jars, and fetches them first where they aren't there yet. Of several
// processes that ask at once one fetches and the others wait. What is in the folder is complete: it is fetched beside
// it and renamed.
func FetchKafka(ctx context.Context) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	jars := filepath.Join(cache, "kafka-"+KafkaVersion)
	if isDir(jars) {
		return jars, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	held, err := lock(jars+".lock", syscall.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer held.Close()
	if isDir(jars) { // whoever held the lock has fetched them
		return jars, nil
	}
	stage, err := os.MkdirTemp(cache, "fetch-*")
	if err != nil {
		return "", fmt.Errorf("make a folder to fetch into: %w", err)
	}
	defer os.RemoveAll(stage)
	if err := os.WriteFile(filepath.Join(stage, "pom.xml"), []byte(pom), 0o644); err != nil {
		return "", fmt.Errorf("write pom.xml: %w", err)
	}
	// -C: a jar whose checksum is wrong is an error, not a warning.
	cmd := exec.CommandContext(ctx, "mvn", "-B", "-q", "-C",
		"dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(stage, "jars"))
	cmd.Dir = stage
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Kafka %s with mvn: %w\n%s", KafkaVersion, err, bytes.TrimSpace(out))
	}
	if err := os.Rename(filepath.Join(stage, "jars"), jars); err != nil {
		return "", fmt.Errorf("put the jars in place: %w", err)
	}
	return jars, nil
}

// cacheDir is $SOONBEON_CACHE, else soonbeon in the user's cache folder.
func cacheDir() (string, error) {
	if dir := os.Getenv("SOONBEON_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder (set SOONBEON_CACHE): %w", err)
	}
	return filepath.Join(user, "soonbeon"), nil
}

// javaMissing says what a local Kafka wants that isn't here, or nil.
func javaMissing() error {
	if _, err := exec.LookPath("java"); err != nil {
		return errors.New("no java on the PATH")
	}
	if cache, err := cacheDir(); err == nil && isDir(filepath.Join(cache, "kafka-"+KafkaVersion)) {
		return nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return errors.New("no mvn on the PATH to fetch Kafka with")
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
