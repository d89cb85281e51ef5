"""Which variables choose what code runs, each with who obeys it, and which only look as if they did."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.actions.steering import obeyed_by

STEERING = {
    "the shell obeys it": """
        PATH CDPATH FPATH IFS ENV HOME SHELL PS0 PS1 PS4 PROMPT_COMMAND BASH_ENV BASH_FUNC_ls BASH_LOADABLES_PATH BASH_XTRACEFD
        BASHOPTS SHELLOPTS INPUTRC HISTFILE ZDOTDIR GLOBIGNORE EXECIGNORE RANDOM SRANDOM SECONDS LINENO HISTCMD OPTIND BASHPID""",
    "the loader takes code": """
        LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT LD_DEBUG_OUTPUT LD_VERSION DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH LIBPATH SHLIB_PATH
        GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH HOSTALIASES RES_OPTIONS MALLOC_TRACE XDG_CONFIG_HOME XDG_DATA_DIRS GTK_MODULES
        GIO_EXTRA_MODULES QT_PLUGIN_PATH GST_PLUGIN_PATH TERMINFO ASAN_OPTIONS UBSAN_OPTIONS ASAN_SYMBOLIZER_PATH""",
    "git runs": """
        GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT GIT_PROXY_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR
        GIT_ASKPASS GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY
        GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0 GIT_CONFIG_GLOBAL
        GIT_CONFIG_SYSTEM GIT_CONFIG_PARAMETERS GIT_ALLOW_PROTOCOL GIT_PROTOCOL_FROM_USER GIT_SSL_NO_VERIFY GIT_SSL_CAINFO
        GIT_TRACE GIT_ATTR_SOURCE GIT_REDIRECT_STDOUT GIT_CEILING_DIRECTORIES GIT_DIFF_OPTS GIT_TERMINAL_PROMPT""",
    "Node.js loads": """
        NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED NODE_REPL_EXTERNAL_MODULE NODE_V8_COVERAGE
        NODE_COMPILE_CACHE NODE_REDIRECT_WARNINGS NODE_CHANNEL_FD NODE_CONFIG_DIR NODE_ICU_DATA""",
    "Python loads": """
        PYTHON PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONWARNINGS PYTHONBREAKPOINT PYTHONUSERBASE PYTHONPLATLIBDIR
        PYTHONEXECUTABLE PYTHONPYCACHEPREFIX PYTHONHTTPSVERIFY PYTHON_PRESITE PYTHON_HISTORY PYTHONCASEOK PYTHONDEVMODE""",
    "Perl loads": "PERL5OPT PERL5LIB PERLLIB PERL5DB PERL5SHELL PERLDB_OPTS PERL_MM_OPT PERL_MB_OPT PERLIO PERL_CPANM_OPT",
    "Ruby loads": "RUBYOPT RUBYLIB RUBYPATH RUBYSHELL RUBYLIB_PREFIX RUBY",
    "Lua loads": "LUA_INIT LUA_INIT_5_4 LUA_PATH LUA_PATH_5_3 LUA_CPATH",
    "OpenSSL loads": "OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES",
    "Java runs": """
        JAVA_HOME JDK_HOME JRE_HOME JAVACMD CLASSPATH JAVA_OPTS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS IBM_JAVA_OPTIONS
        OPENJ9_JAVA_OPTIONS GRADLE_OPTS MAVEN_OPTS MAVEN_ARGS SBT_OPTS ANT_OPTS JRUBY_OPTS GRADLE_USER_HOME LEIN_JVM_OPTS""",
    "an interpreter or test runner loads": """
        PHPRC PHP_INI_SCAN_DIR JULIA_LOAD_PATH ERL_AFLAGS ERL_ZFLAGS ERL_LIBS ELIXIR_ERL_OPTIONS CAML_LD_LIBRARY_PATH GHCRTS
        GUILE_LOAD_PATH EMACSLOADPATH TCLLIBPATH AWKPATH AWKLIBPATH R_PROFILE R_PROFILE_USER R_ENVIRON R_LIBS PYTEST_ADDOPTS
        PYTEST_PLUGINS COVERAGE_PROCESS_START MPLBACKEND IPYTHONDIR VIMINIT EXINIT DOTNET_STARTUP_HOOKS CORECLR_PROFILER_PATH
        COR_PROFILER CLOUDSDK_PYTHON TS_NODE_COMPILER""",
    "a package manager takes code": """
        npm_config_registry NPM_CONFIG_REGISTRY npm_config_script_shell npm_config_tag npm_execpath npm_node_execpath PIP_INDEX_URL
        PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE PIP_CERT PIPX_DEFAULT_PYTHON UV_INDEX_URL UV_PYTHON UV_DEFAULT_INDEX POETRY_REPOSITORIES_X_URL
        YARN_REGISTRY YARN_RC_FILENAME PNPM_HOME COREPACK_NPM_REGISTRY BUNDLE_GEMFILE BUNDLE_PATH GEM_HOME GEM_PATH GEMRC COMPOSER
        COMPOSER_HOME CONDA_PREFIX HOMEBREW_BOTTLE_DOMAIN CARGO CARGO_HOME CARGO_BUILD_RUSTC CARGO_BUILD_RUSTC_WRAPPER CARGO_ALIAS_B
        CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER CARGO_ENCODED_RUSTFLAGS
        CARGO_REGISTRIES_X_INDEX CARGO_REGISTRY_DEFAULT CARGO_SOURCE_CRATES_IO_REPLACE_WITH CARGO_NET_GIT_FETCH_WITH_CLI
        CARGO_HTTP_PROXY RUSTFLAGS RUSTDOCFLAGS RUSTC RUSTDOC GOFLAGS GOENV GOPATH GOROOT GOBIN GOPROXY GOSUMDB GONOSUMDB GOPRIVATE
        GOINSECURE GOTOOLCHAIN GOTOOLDIR GOCACHEPROG GOAUTH GOVCS GOWORK CGO_CFLAGS CGO_LDFLAGS_ALLOW""",
    "Ansible loads": "ANSIBLE_CONFIG ANSIBLE_LIBRARY ANSIBLE_FILTER_PLUGINS ANSIBLE_COLLECTIONS_PATH ANSIBLE_SSH_EXECUTABLE",
    "rustup fetches": "RUSTUP_TOOLCHAIN RUSTUP_DIST_SERVER RUSTUP_HOME RUSTUP_UPDATE_ROOT",
    "the compiler runs": "GCC_EXEC_PREFIX GCC_COMPARE_DEBUG",
    "a build tool runs": """
        MAKEFLAGS GNUMAKEFLAGS MFLAGS MAKEFILES CC CXX CPP FC LD AS AR CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDLIBS COMPILER_PATH
        LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH CCC_OVERRIDE_OPTIONS PKG_CONFIG PKG_CONFIG_PATH CMAKE_TOOLCHAIN_FILE
        CMAKE_PREFIX_PATH CMAKE_CXX_COMPILER_LAUNCHER CCACHE_PREFIX SCCACHE_DIST_AUTH_TOKEN DISTCC_HOSTS CONFIG_SHELL CONFIG_SITE""",
    "a program runs": """
        EDITOR VISUAL PAGER BROWSER LESSOPEN LESSCLOSE LESS MANPAGER SYSTEMD_PAGER SUDO_EDITOR SSH_ASKPASS SUDO_ASKPASS
        HGEDITOR SVN_SSH CVS_RSH RSYNC_RSH TAR_OPTIONS FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS TF_CLI_ARGS TF_CLI_ARGS_plan WGETRC
        CURL_HOME GNUPGHOME X_PRELOAD PSQLRC PSQL_EDITOR SQLPATH ORACLE_PATH HELM_PLUGINS HELM_DATA_HOME HELM_CONFIG_HOME
        HELM_REPOSITORY_CONFIG KUBECTL_EXTERNAL_DIFF KUBE_EDITOR LIBMYSQL_PLUGINS LIBMYSQL_PLUGIN_DIR TF_PLUGIN_CACHE_DIR
        PACKER_PLUGIN_PATH IRBRC PRYRC""",
    "it decides whom programs trust": "SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE AWS_CA_BUNDLE",
}
"""Each of these names, because of its values, is refused a value from outside. `LESS` may have `+!command`, `CFLAGS` gcc's
`-wrapper`, `TAR_OPTIONS` `--checkpoint-action`, `OPTIND` a number that bash computes."""

HARMLESS = [
    "NODE_VERSION",
    "NODE_ENV",
    "NODE_AUTH_TOKEN",
    "NODE_IMAGE",
    "GIT_SHA",
    "GIT_TAG",
    "GIT_BRANCH",
    "GIT_REF",
    "GIT_COMMIT",
    "GIT_HASH",
    "GIT_URL",
    "GIT_REPO",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMIT_SHA",
    "GIT_VERSION",
    "PYTHON_VERSION",
    "PYTHON_VERSIONS",
    "PYTHON_IMAGE",
    "RUBY_VERSION",
    "LUA_VERSION",
    "PERL_VERSION",
    "OPENSSL_VERSION",
    "GCC_VERSION",
    "JAVA_VERSION",
    "GO_VERSION",
    "GOOS",
    "GOARCH",
    "CGO_ENABLED",
    "CARGO_TEST_OPTIONS",
    "CARGO_TERM_COLOR",
    "CARGO_INCREMENTAL",
    "CARGO_FEATURES",
    "TEST_COMMAND",
    "TEST_OPTIONS",
    "BUILD_OPTS",
    "DEPLOY_COMMAND",
    "PIP_VERSION",
    "UV_VERSION",
    "POETRY_VERSION",
    "YARN_VERSION",
    "RUST_VERSION",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "DOCKER_HOST",
    "KUBECONFIG",
    "HTTPS_PROXY",
    "http_proxy",
    "NAME",
    "VERSION",
    "REF",
    "TAG",
    "USER",
    "LANG",
    "TZ",
    "DEBUG",
    "TARGET",
    "PLATFORM",
    "VARIANT",
    "ENVIRONMENT",
    "SHELL_NAME",
    "PATHS",
    "HOMEPAGE",
    "EDITORS",
    "PAGERDUTY_KEY",
    "ENV_NAME",
    "ENVIRON_NAME",
    "GITHUB_REF",
    "MATRIX_OS",
    "API_PATH",
    "HELM_NAMESPACE",
    "HELM_VERSION",
    "ANSIBLE_VERSION",
    "PGHOST",
]


@pytest.mark.parametrize(("who", "name"), [(who, name) for who, names in STEERING.items() for name in names.split()])
def test_a_name_that_chooses_what_runs_is_reported_with_who_obeys_it(who: str, name: str) -> None:
    assert (obeyed_by(name) or "nobody").startswith(who)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_that_only_describes_something_steers_nothing(name: str) -> None:
    assert obeyed_by(name) is None


PROVEN = [
    ("BASH_ENV", "./evil", ["bash", "-c", ":"]),
    ("ENV", "./evil", ["sh", "-i", "-c", ":"]),
    ("BASH_FUNC_ls%%", "() { touch pwned; }", ["bash", "-c", "ls"]),
    ("PYTHONPATH", "./", [sys.executable, "-c", "import evil"]),
    ("PERL5OPT", "-Mevil -I.", ["perl", "-e", "1"]),
    ("TAR_OPTIONS", "--checkpoint=1 --checkpoint-action=exec=./evil", ["tar", "cf", "x.tar", "evil"]),
    ("GIT_EXTERNAL_DIFF", "./evil", ["git", "diff", "--no-index", "--ext-diff", "evil", "evil.py"]),
    ("GIT_SSH_COMMAND", "./evil", ["git", "ls-remote", "ssh://127.0.0.1/x"]),
    ("GIT_CONFIG_PARAMETERS", "'alias.x=!./evil'", ["git", "x"]),
    ("MAKEFILES", "./evil.mk", ["make", "-f", "/dev/null"]),
    ("CFLAGS", "-wrapper ./evil", ["make", "-f", "/dev/null", "prog"]),
    ("CC", "./evil", ["make", "-f", "/dev/null", "prog"]),
]


@pytest.mark.parametrize(("name", "value", "command"), PROVEN, ids=[name for name, _, _ in PROVEN])
def test_programs_do_obey(tmp_path: Path, name: str, value: str, command: list[str]) -> None:
    """Why these are listed: the program runs what the value says, though its own words say nothing of it."""
    assert obeyed_by(name.partition("%")[0]) is not None
    if shutil.which(command[0]) is None:
        pytest.skip("no such program here")
    evil = "#!/bin/sh\ntouch pwned\n"
    files = {
        "evil": evil,
        "evil.py": "open('pwned', 'w')\n",
        "evil.pm": "system 'touch pwned'; 1;\n",
        "evil.mk": "$(shell touch pwned)\n",
        "prog.c": "int main(void) { return 0; }\n",
    }
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    (tmp_path / "evil").chmod(0o755)
    subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), name: value},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (tmp_path / "pwned").exists()
