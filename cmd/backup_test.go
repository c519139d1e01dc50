package cmd

import (
	"os"
	"slices"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/objstore/objtest"
)

// TestBackupCommands: a crawl is backed up by hand, loses its directory, is restored, and continues with backups of
// its own; damage of the place is found.
func TestBackupCommands(t *testing.T) {
	web, args := cmdtest.SmallWeb(t, nil)
	dir := t.TempDir()
	d, place := dir+"/d", dir+"/place"
	args = append(args, "--dir="+d, "--ram=256MiB", "--seeds", cmdtest.SeedFile(t, web))
	wantExit(t, term.ExitPages, "", append(slices.Clone(args), "--max-pages=20")...)
	wantExit(t, term.ExitDirectory, "no backup", "backup", "list", "--from="+place)
	wantExit(t, term.ExitDirectory, "inside", "backup", "make", d, "--to="+d+"/x")
	wantExit(t, term.ExitDone, "backup 1 in", "backup", "make", d, "--to="+place)
	wantExit(t, term.ExitDone, "number", "backup", "list", "--from="+place)
	wantExit(t, term.ExitDone, "is whole", "backup", "verify", "--from="+place)
	wantExit(t, term.ExitDirectory, "has a crawl already", "restore", "--from="+place, "--dir="+d)
	must(t, os.RemoveAll(d))
	wantExit(t, term.ExitDirectory, "no backup 7", "restore", "--from="+place, "--dir="+d, "--number=7")
	wantExit(t, term.ExitDirectory, "has 1 directories", "restore", "--from="+place, "--dir="+d, "--dir="+dir+"/e")
	wantExit(t, term.ExitDone, "restored backup 1", "restore", "--from="+place, "--dir="+d)
	wantExit(t, term.ExitDone, "balanced", "audit", "--deep", d)
	wantExit(t, term.ExitDirectory, "is inside", append(slices.Clone(args), "--backup="+d+"/b")...)
	wantExit(t, term.ExitDone, "1 backup made in this run", append(slices.Clone(args), "--backup="+place)...)
	wantExit(t, term.ExitDone, "\n2 ", "backup", "list", "--from="+place)
	wantExit(t, term.ExitDone, "balanced", "audit", "--deep", d)
	wantExit(t, term.ExitDone, "restored backup 2", "restore", "--from="+place, "--dir="+dir+"/whole")
	again := slices.Clone(args)
	again[slices.Index(again, "--dir="+d)] = "--dir=" + dir + "/whole"
	wantExit(t, term.ExitDone, "finished", again...)
	for _, pack := range globbed(t, place+"/packs/*") {
		data := readFile(t, pack)
		must(t, os.WriteFile(pack, []byte(data[:len(data)-1]), 0o600))
	}
	wantExit(t, term.ExitDamage, "bytes", "backup", "verify", "--from="+place, "--number=1")
	wantExit(t, term.ExitDamage, "bytes", "restore", "--from="+place, "--dir="+dir+"/f")
}

// TestBackupStore backs a crawl up in a real server of S3, and restores it.
func TestBackupStore(t *testing.T) {
	notShort(t)
	s := objtest.Serve(t)
	s.Setenv(t)
	web, args := cmdtest.SmallWeb(t, nil)
	dir := t.TempDir()
	place := "s3://" + s.Place.Bucket + "/backups"
	store := []string{"--s3-endpoint=" + s.Endpoint, "--s3-path-style"}
	args = slices.Concat(args, store, []string{"--dir=" + dir + "/d", "--ram=256MiB",
		"--seeds", cmdtest.SeedFile(t, web), "--checkpoint-every=50ms", "--backup-every=1s", "--backup-keep=2"})
	wantExit(t, term.ExitDirectory, "no access", append(slices.Clone(args), "--backup=s3://others/x")...)
	args = append(args, "--backup="+place)
	wantExit(t, term.ExitDone, "made in this run", args...)
	from := append([]string{"--from=" + place}, store...)
	wantExit(t, term.ExitDone, "is whole", slices.Concat([]string{"backup", "verify"}, from)...)
	wantExit(t, term.ExitDone, "restored", slices.Concat([]string{"restore", "--dir=" + dir + "/r"}, from)...)
	wantExit(t, term.ExitDone, "balanced", "audit", "--deep", dir+"/r")
}
