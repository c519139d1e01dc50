package doctor

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"

	"drumbeat/botauth"
	"drumbeat/internal/human"
)

// checkDirectory fetches the key directory, and verifies it as a network does (package botauth).
func (i *identity) checkDirectory(ctx context.Context) []finding {
	at := &url.URL{Scheme: i.page.Scheme, Host: i.page.Host, Path: botauth.DirectoryPath}
	if i.card != nil && i.card.KeysURI != "" {
		if u, err := url.Parse(i.card.KeysURI); err == nil && u.Host != "" {
			at = u
		}
	}
	r := finding{Check: "key directory", Need: "keys, with a signature by each"}
	file, err := i.get(ctx, at, botauth.DirectoryType, botauth.MaxDirectoryBytes)
	if err != nil {
		r.Now = fmt.Sprintf("%s: %v", i.short(at), err)
		i.facts.signed = fails
		if absent(err) && i.keys == nil {
			r.Now, r.Need = "none: requests are not signed", "nothing, unless the crawl signs (--sign)"
			return []finding{r}
		}
		if !absent(err) {
			i.facts.signed = unjudged
		}
		r.at(fail, true, "add --sign FILE to bot-page, and publish its files and the fields of the directory")
		return []finding{r}
	}
	d, proven, err := botauth.VerifyDirectory(at.Host, file.body, file.header, i.now())
	if len(d.Keys) == 0 {
		i.facts.signed = fails
		r.Now = fmt.Sprintf("%s: %s", i.short(at), directoryCause(err))
		r.at(fail, true, "add --sign FILE to bot-page, and publish its files and the fields of the directory")
		return []finding{r}
	}
	r.Now = fmt.Sprintf("%s, %d proven", human.Counted(len(d.Keys), "key", "keys"), len(proven))
	if err != nil {
		r.Now += ": " + directoryCause(err)
		r.at(fail, !errors.Is(err, botauth.ErrNoSignature), proofFix(err))
		r.at(warn, true, proofFix(err))
	}
	r.at(warn, len(proven) < len(d.Keys), "publish the directory again: a key without a signature is ignored")
	kind, _, err := mime.ParseMediaType(file.header.Get("Content-Type"))
	if strings.HasSuffix(at.Path, botauth.DirectoryPath) && (err != nil || kind != botauth.DirectoryType) {
		r.Now += fmt.Sprintf(", media type %.100q", file.header.Get("Content-Type"))
		r.at(fail, true, "let the server send Content-Type: "+botauth.DirectoryType+", as with bot-page --nginx")
	}
	list := []finding{r}
	if i.keys != nil {
		list = append(list, i.checkOwnKeys(d, proven))
	}
	i.facts.signed = factOf(!slices.ContainsFunc(list, func(f finding) bool { return f.Status >= warn }))
	if i.keys == nil && i.facts.signed == holds {
		i.facts.signed = unjudged // whether requests are signed is not known
	}
	i.checkEnds(&list[0], d, proven) // until then all is well
	return list
}

// endsSoon is how long before its end the last key of a directory is worth a warning.
const endsSoon = 7 * 24 * time.Hour

// checkEnds warns before a signature of the directory expires, and before the last of its keys does. A server that
// signs each answer may sign for a short time, so a signature is late only if three quarters of its life have passed.
func (i *identity) checkEnds(r *finding, d botauth.Directory, proven []botauth.Verified) {
	now := i.now()
	for _, v := range proven {
		if left := v.Expires.Sub(now); left < v.Expires.Sub(v.Created)/4 {
			r.Now += fmt.Sprintf(", the signature by %s expires at %s", v.KeyID, v.Expires.Format(shortTime))
			r.at(warn, true, "publish the directory again: run bot-page --out-dir once a day, and reload the server")
			break
		}
	}
	last := time.Time{}
	for _, key := range d.Keys {
		if key.Expires == 0 {
			return
		}
		if end := time.Unix(key.Expires, 0).UTC(); end.After(last) {
			last = end
		}
	}
	if last.Sub(now) < endsSoon {
		r.Now += ", the last key expires at " + last.Format(shortTime)
		r.at(warn, true, "make a key with drumbeat keys rotate, and publish the directory again before that time")
	}
}

// shortTime is the form of times in findings, which are in UTC.
const shortTime = "2006-01-02T15:04Z"

// checkOwnKeys looks for the keys of --sign in a directory.
func (i *identity) checkOwnKeys(d botauth.Directory, proven []botauth.Verified) finding {
	now := i.now()
	key := i.keys.At(now)
	r := finding{Check: "key of --sign", Now: key.ID(), Need: "in the directory, and proven"}
	if _, err := d.Key(key.ID(), now); err != nil {
		r.Now = directoryCause(err)
		r.at(fail, true, "publish the directory again, with the same --sign")
		return r
	}
	if !slices.ContainsFunc(proven, func(v botauth.Verified) bool { return v.KeyID == key.ID() }) {
		r.Now += ", not proven"
		r.at(warn, true, "publish the fields of the directory, with the same --sign")
	}
	for _, next := range i.keys.Listed(now) {
		if next.From.After(now) && !slices.ContainsFunc(d.Keys, func(j botauth.JWK) bool {
			public, err := j.Public()
			return err == nil && botauth.Thumbprint(public) == next.ID()
		}) {
			r.Now = fmt.Sprintf("key %s signs from %s and is not in the directory", next.ID(),
				next.From.UTC().Format(shortTime))
			r.at(warn, true, "publish the directory again before that time")
		}
	}
	return r
}

// directoryCause returns the text of an error of package botauth for people.
func directoryCause(err error) string { return strings.TrimPrefix(err.Error(), "directory: ") }

// proofFix says how to fix the signatures of a directory.
func proofFix(err error) string {
	switch {
	case errors.Is(err, botauth.ErrExpired):
		return "run bot-page --out-dir again and reload the server; do so once a day"
	case errors.Is(err, botauth.ErrFuture):
		return "set the clock of the machine that runs bot-page, or of this one: timedatectl set-ntp true"
	case errors.Is(err, botauth.ErrMismatch):
		return "let the server send the directory as bot-page wrote it, without compression, at the host of its " +
			"--url; reload its fields with it"
	case errors.Is(err, botauth.ErrNoSignature):
		return "include the file of bot-page --nginx in the server, or use bot-page --serve"
	}
	return "publish the directory again, with the files of bot-page --sign"
}
