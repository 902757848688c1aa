from tests.documents.reading import documents, read

TEXT = """\
Run `make up` or `weft submit -f
job.yaml --dry-run=server`; `weft` is a name, and so are `make`, `weft.dev/team` and `GET /queue`.

1. A list:

   ```sh
   weft login https://weft.example    # signs in
   # only a comment
   curl -s "$URL" \\
     -d '{"a":
          1}'
   for name in a b; do
       echo $name; done
   ```

```console
$ manage.py manifests > weft.yaml
what it says
```

```yaml
jobs: {train: {steps: [{uses: checkout}, {run: weft diff -f job.yaml}]}}
deploy: {script: ["weft apply -f service.yaml"]}
```

```yaml
command: [python, train.py]
```

```python
weft = 1
```

| `top [teams\\|nodes]` | `KUBECONFIG=a.yaml manage.py namespaces` |
"""


def test_every_command_is_found_with_its_line() -> None:
    assert [(one.line, one.text) for one in read(TEXT, "README.md")] == [
        (1, "make up"),
        (1, "weft submit -f job.yaml --dry-run=server"),
        (7, "weft login https://weft.example    # signs in"),
        (9, 'curl -s "$URL" \\\n  -d \'{"a":\n       1}\''),
        (12, "for name in a b; do\n    echo $name; done"),
        (17, "manage.py manifests > weft.yaml"),
        (22, "weft diff -f job.yaml"),
        (23, "weft apply -f service.yaml"),
        (34, "KUBECONFIG=a.yaml manage.py namespaces"),
    ]


def test_the_documents_are_the_readme_and_all_of_docs() -> None:
    assert {"README.md", "docs/cli.md", "docs/ci.md"} <= set(documents())
