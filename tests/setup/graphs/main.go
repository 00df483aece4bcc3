// A program of the tests that makes graphs of operations (LLB) with BuildKit's own client library.
//
// `graphs NAME IMAGE` writes the definition of that name, whose commands run in IMAGE, as `buildctl build` reads it.
// Without arguments it is a frontend: the process of an image that BuildKit runs, with LLBBridge on its standard streams.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/gateway/client"
	"github.com/moby/buildkit/frontend/gateway/grpcclient"
	"github.com/moby/buildkit/solver/pb"
)

func main() {
	var err error
	if len(os.Args) == 3 {
		err = write(os.Args[1], os.Args[2])
	} else {
		err = grpcclient.RunFromEnvironment(context.Background(), build)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(name, image string) error {
	graph, ok := graphs[name]
	if !ok {
		return fmt.Errorf("no graph %s", name)
	}
	definition, err := graph(image).Marshal(context.Background())
	if err != nil {
		return err
	}
	return llb.WriteTo(definition, os.Stdout)
}

// run adds a shell command to a state.
func run(state llb.State, script string, options ...llb.RunOption) llb.ExecState {
	return state.Run(append([]llb.RunOption{llb.Args([]string{"/bin/sh", "-ec", script})}, options...)...)
}

var graphs = map[string]func(image string) llb.State{
	"exec": func(image string) llb.State {
		state := llb.Image(image).AddEnv("GREETING", "hello").Dir("/tmp")
		return run(state, `echo $GREETING $(pwd) > /out; grep other /etc/hosts > /hosts; ulimit -n > /limit`,
			llb.AddExtraHost("other", []byte{10, 9, 8, 7}), llb.AddUlimit(llb.UlimitNofile, 77, 78),
			llb.WithCustomName("the command")).Root()
	},
	"hostname": func(image string) llb.State {
		return run(llb.Image(image).Hostname("somewhere"), "hostname > /out").Root()
	},
	"user": func(image string) llb.State {
		return run(llb.Image(image).User("1234:77"), "id -u > /tmp/out; id -g >> /tmp/out").Root()
	},
	"exits": func(image string) llb.State {
		return run(llb.Image(image), "echo seven > /out; exit 7", llb.ValidExitCodes(0, 7)).Root()
	},
	"network": func(image string) llb.State {
		return run(llb.Image(image), "ls /sys/class/net > /out", llb.Network(llb.NetModeNone)).Root()
	},
	"insecure": func(image string) llb.State {
		return run(llb.Image(image), "true", llb.Security(llb.SecurityModeInsecure)).Root()
	},
	"mounts": func(image string) llb.State {
		files := llb.Scratch().File(llb.Mkdir("/d", 0o755).Mkfile("/d/f", 0o644, []byte("given\n")))
		command := run(llb.Image(image), `cat /in/f > /made/out; grep -c ' /fast tmpfs' /proc/mounts >> /made/out
			echo more >> /kept/log; ! touch /in/x 2> /dev/null; touch /fast/x /gone/x; echo root > /made/of`,
			llb.AddMount("/in", files, llb.SourcePath("/d"), llb.Readonly),
			llb.AddMount("/fast", llb.Scratch(), llb.Tmpfs(llb.TmpfsSize(1<<20))),
			llb.AddMount("/gone", llb.Scratch(), llb.ForceNoOutput),
			llb.AddMount("/kept", llb.Scratch(), llb.AsPersistentCacheDir("graphs", llb.CacheMountLocked)))
		return command.AddMount("/made", llb.Scratch())
	},
	"secret": func(image string) llb.State {
		return run(llb.Image(image), `test "$(cat /run/secrets/s)" = "$WORD"; stat -c '%a %u' /run/secrets/s > /out; test ! -e /run/secrets/none`,
			llb.AddSecret("/run/secrets/s", llb.SecretID("s"), llb.SecretFileOpt(7, 8, 0o440)),
			llb.AddSecret("/run/secrets/none", llb.SecretID("none"), llb.SecretOptional),
			llb.AddSecretWithDest("s", nil, llb.SecretAsEnv(true), llb.SecretAsEnvName("WORD"))).Root()
	},
	"files": func(image string) llb.State {
		base := llb.Image(image)
		from := llb.Scratch().File(llb.Mkdir("/a/b", 0o755, llb.WithParents(true)).
			Mkfile("/a/b/one", 0o600, []byte("1")).Mkfile("/a/b/two", 0o644, []byte("2")).Mkfile("/a/three", 0o644, []byte("3")))
		return base.File(llb.Mkdir("/made", 0o750, llb.WithUIDGID(5, 6)).
			Mkfile("/made/file", 0o640, []byte("contents\n"), llb.WithUser("root:root")).
			Symlink("file", "/made/link").
			Copy(from, "/a/b/*", "/copied/", &llb.CopyInfo{AllowWildcard: true, CreateDestPath: true}).
			Copy(from, "/a", "/part", &llb.CopyInfo{CopyDirContentsOnly: true, CreateDestPath: true, IncludePatterns: []string{"b/*"}, ExcludePatterns: []string{"**/one"}}).
			Copy(from, "/a/three", "/three", llb.ChownOpt{User: &llb.UserOpt{UID: 9}, Group: &llb.UserOpt{UID: 8}}).
			Rm("/copied/two").Rm("/none", llb.WithAllowNotFound(true)))
	},
	"merge": func(image string) llb.State {
		one := run(llb.Image(image), "echo 1 > /one; echo 1 > /both")
		two := run(llb.Image(image), "echo 2 > /two; echo 2 > /both; rm /one 2> /dev/null || true")
		return llb.Merge([]llb.State{one.Root(), two.Root()})
	},
	"diff": func(image string) llb.State {
		base := llb.Image(image)
		return llb.Diff(base, run(base, "echo new > /new; rm -r /tmp/* || true").Root())
	},
	"local": func(image string) llb.State {
		files := llb.Local("context", llb.IncludePatterns([]string{"kept*"}), llb.ExcludePatterns([]string{"kept.not"}))
		return llb.Image(image).File(llb.Copy(files, "/", "/local", &llb.CopyInfo{CopyDirContentsOnly: true, CreateDestPath: true}))
	},
	"fails": func(image string) llb.State {
		return run(llb.Image(image), "echo words; exit 3").Root()
	},
}

// build is the frontend. The option `say` has it do one thing or another.
func build(ctx context.Context, c client.Client) (*client.Result, error) {
	options := c.BuildOpts().Opts
	if text, ok := options["fail"]; ok {
		return nil, fmt.Errorf("the frontend fails: %s", text)
	}
	dockerfile := llb.Local("dockerfile", llb.FollowPaths([]string{options["filename"]}), llb.WithCustomName("[internal] load the frontend's file"))
	definition, err := dockerfile.Marshal(ctx)
	if err != nil {
		return nil, err
	}
	read, err := c.Solve(ctx, client.SolveRequest{Definition: definition.ToPB()})
	if err != nil {
		return nil, err
	}
	text, err := read.Ref.ReadFile(ctx, client.ReadRequest{Filename: options["filename"]})
	if err != nil {
		return nil, err
	}
	image := options["build-arg:IMAGE"]
	_, digest, config, err := c.ResolveImageConfig(ctx, image, sourceresolver.Opt{ImageOpt: &sourceresolver.ResolveImageOpt{ResolveMode: "local"}})
	if err != nil {
		return nil, err
	}
	state := run(llb.Image(image), "echo begun; mkdir /made; cat /given > /made/file; ln -s file /made/link",
		llb.AddMount("/given", dockerfile, llb.SourcePath(options["filename"]), llb.Readonly)).Root()
	inputs, err := c.Inputs(ctx)
	if err != nil {
		return nil, err
	}
	for name, input := range inputs {
		state = state.File(llb.Copy(input, "/", "/inputs/"+name, &llb.CopyInfo{CopyDirContentsOnly: true, CreateDestPath: true}))
	}
	definition, err = state.Marshal(ctx)
	if err != nil {
		return nil, err
	}
	made, err := c.Solve(ctx, client.SolveRequest{Definition: definition.ToPB()})
	if err != nil {
		return nil, err
	}
	if err := made.Ref.Evaluate(ctx); err != nil {
		return nil, err
	}
	entries, err := made.Ref.ReadDir(ctx, client.ReadDirRequest{Path: "/made"})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Path)
	}
	stat, err := made.Ref.StatFile(ctx, client.StatRequest{Path: "/made/link"})
	if err != nil {
		return nil, err
	}
	for digest := range definition.Metadata {
		if err := c.Warn(ctx, digest, "a warning of the frontend", client.WarnOpts{Level: 1, URL: "https://example.com/", SourceInfo: &pb.SourceInfo{Filename: "F", Data: text}}); err != nil {
			return nil, err
		}
	}
	told := map[string]any{"config": json.RawMessage(config), "digest": digest, "names": names, "size": stat.Size,
		"text": string(text), "session": c.BuildOpts().SessionID != "", "workers": len(c.BuildOpts().Workers), "target": options["target"]}
	labels := map[string]string{}
	for key, value := range told {
		if key == "config" {
			continue
		}
		shown, _ := json.Marshal(value)
		labels[strings.ToLower(key)] = string(shown)
	}
	document := map[string]any{}
	if err := json.Unmarshal(config, &document); err != nil {
		return nil, err
	}
	inner, _ := document["config"].(map[string]any)
	if inner == nil {
		inner = map[string]any{}
	}
	inner["Labels"] = labels
	document["config"] = inner
	shown, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	made.AddMeta("containerimage.config", shown)
	return made, nil
}
