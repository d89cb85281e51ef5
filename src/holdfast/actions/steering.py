"""Names of environment variables by which a value from outside would choose what code runs.

Programs obey these unasked: the script need not mention them. A name is listed if its value is a command or options with
one in them, or a place from which code, or who vouches for it, is taken. Whole prefixes are listed where a program owns
them; names that merely describe something under such a prefix (`NODE_VERSION`, `GIT_SHA`) are let through.

Not listed are the files and addresses that a program is configured with (`KUBECONFIG`, `DOCKER_HOST`, `HTTPS_PROXY`): what
a program does with those is the script's affair. Never here: where such a name may not be given a value.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class _Family(NamedTuple):
    obeyed_by: str
    """The programs that obey them, and how, in words for the author of the file."""
    names: str
    """Whole names, as alternatives of a regular expression."""
    owned: str = ""
    """Prefixes that belong to the program, as alternatives: every name that begins so counts."""
    but_for: str = ""
    """Names under `owned` that are harmless."""


_DESCRIPTIONS: Final = re.compile(
    r".*_(VERSIONS?|SHA|SHA1|SHA256|HASH|TAG|NAME|IMAGE|BRANCH|REF|COMMIT|REVISION|EMAIL|DATE|URL|REPO|REPOSITORY)"
)
"""Names that end so say something about a thing. No program whose prefix is listed with them reads one as an order."""

_DESCRIBED: Final = (
    _Family("git runs the commands and hooks that it names", "", "GIT_"),
    _Family("Node.js loads the code and options that it names", "", "NODE_", "NODE_ENV|NODE_AUTH_TOKEN"),
    _Family("Python loads the code that it names", "", "PYTHON"),
    _Family("Perl loads the code that it names", "", "PERL5|PERLLIB|PERLDB|PERL_|PERLIO"),
    _Family("Ruby loads the code that it names", "", "RUBY"),
    _Family("Lua loads the code that it names", "", "LUA_"),
    _Family("OpenSSL loads the code that it names", "", "OPENSSL_"),
    _Family("the compiler runs the programs that it names", "", "GCC_"),
    _Family("Ansible loads the code and options that it names", "", "ANSIBLE_"),
    _Family("rustup fetches and runs the toolchain that it names", "", "RUSTUP_"),
)

_WHOLE: Final = (
    _Family(
        "the shell obeys it",
        "PATH|CDPATH|FPATH|IFS|ENV|HOME|SHELL|PS[0-9]|PROMPT|PROMPT_COMMAND|BASHOPTS|SHELLOPTS|EXECIGNORE|GLOBIGNORE|FIGNORE"
        "|FCEDIT|INPUTRC|HISTFILE|ZDOTDIR|CHILD_MAX|FUNCNEST"
        # Numbers to bash, which computes what is assigned to them and runs what it finds in brackets.
        "|RANDOM|SRANDOM|SECONDS|LINENO|HISTCMD|OPTIND|BASHPID|PPID|UID|EUID|EPOCHSECONDS|EPOCHREALTIME|DIRSTACK|GROUPS",
        "BASH_",
    ),
    _Family(
        "the loader takes code from where it says",
        "LIBPATH|SHLIB_PATH|LOCPATH|NLSPATH|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|MALLOC_TRACE|GTK_MODULES|GTK_PATH|GIO_EXTRA_MODULES"
        "|GIO_MODULE_DIR|QT_PLUGIN_PATH|QT_QPA_PLATFORM_PLUGIN_PATH|QML2_IMPORT_PATH|QML_IMPORT_PATH|GST_PLUGIN_PATH"
        "|GST_PLUGIN_SYSTEM_PATH|TERMINFO|TERMINFO_DIRS|TERMCAP|[A-Z]+SAN_OPTIONS|[A-Z]+SAN_SYMBOLIZER_PATH",
        "LD_|DYLD_|GLIBC_|GCONV_|XDG_",
    ),
    _Family(
        "Java runs the program, or takes the options, that it names",
        "CLASSPATH|JAVA_HOME|JDK_HOME|JRE_HOME|JAVACMD|JAVA_OPTS|.*JAVA_OPTIONS|.*(JAVA|JVM)_OPTS|(ANT|CATALINA|GRADLE|GROOVY|HADOOP"
        "|JRUBY|KAFKA|KOTLIN|LEIN|MAVEN|SBT|SCALA|SPARK|TOMCAT)_OPTS|JAVA_TOOL_OPTIONS|ANT_ARGS|ANT_HOME|GRADLE_HOME|GRADLE_USER_HOME"
        "|M2_HOME|MAVEN_HOME|MAVEN_ARGS|MAVEN_CONFIG|MAVEN_EXT_CLASS_PATH|SBT_HOME",
    ),
    _Family(
        "an interpreter or test runner loads the code that it names",
        "PHPRC|PHP_INI_SCAN_DIR|JULIA_LOAD_PATH|JULIA_PROJECT|JULIA_DEPOT_PATH|ERL_[A-Z]*FLAGS|ERL_LIBS|ELIXIR_ERL_OPTIONS"
        "|OCAMLRUNPARAM|CAML_LD_LIBRARY_PATH|OCAMLLIB|OCAMLPATH|GHC_PACKAGE_PATH|GHCRTS|GUILE_LOAD_PATH|GUILE_LOAD_COMPILED_PATH"
        "|EMACSLOADPATH|TCLLIBPATH|TCL_LIBRARY|AWKPATH|AWKLIBPATH|M4PATH|R_PROFILE(_USER)?|R_ENVIRON(_USER)?|R_LIBS(_USER|_SITE)?|R_HOME"
        "|PYTEST_ADDOPTS|PYTEST_PLUGINS|COVERAGE_PROCESS_START|COVERAGE_RCFILE|MPLBACKEND|MPLCONFIGDIR|IPYTHONDIR|CLOUDSDK_PYTHON"
        "|VIMINIT|EXINIT|MYVIMRC|DOTNET_STARTUP_HOOKS|DOTNET_ADDITIONAL_DEPS|DOTNET_ROOT|ELECTRON_RUN_AS_NODE|NODEJS_ORG_MIRROR",
        "CORECLR_|COR_|MSBUILD|PARROT_|TS_NODE_",
    ),
    _Family(
        "a package manager takes code from where it says",
        "COMPOSER_HOME|COMPOSER|GEMRC|NUGET_PACKAGES|VIRTUALENV_PYTHON|RUSTDOC|RUSTC|CARGO"
        "|CARGO_(HOME|ENCODED_RUSTFLAGS|ENCODED_RUSTDOCFLAGS|INSTALL_ROOT|PATHS|INCLUDE)|RUSTFLAGS|RUSTDOCFLAGS"
        "|GO(FLAGS|ENV|PATH|ROOT|BIN|PROXY|SUMDB|NOSUMDB|NOSUMCHECK|NOPROXY|PRIVATE|INSECURE|TOOLCHAIN|TOOLDIR|WORK|VCS|CACHE|MODCACHE"
        "|CACHEPROG|AUTH)|GCCGO|CGO_(?!ENABLED)[A-Z_]+",
        "(?i:npm_config_)|(?i:npm_execpath)|(?i:npm_node_execpath)|(?i:npm_package_)|PIP_|PIPX_|PIPENV_|PDM_|UV_|POETRY_|YARN_|PNPM_"
        "|COREPACK_|BUNDLE_|BUNDLER_|GEM_|HOMEBREW_|CONDA_|MAMBA_"
        "|CARGO_(ALIAS|BUILD|CACHE|CREDENTIAL|ENV|HOST|HTTP|NET|PATCH|PROFILE|REGISTRIES|REGISTRY|RESOLVER|SOURCE|TARGET|UNSTABLE)_",
        "(PIP|PIPX|PIPENV|PDM|UV|POETRY|YARN|PNPM|BUNDLER|CONDA)_VERSION",
    ),
    _Family(
        "a build tool runs the program, or takes the options, that it names",
        "MAKEFLAGS|GNUMAKEFLAGS|MFLAGS|MAKEFILES|CC|CXX|CPP|FC|F77|LD|AS|AR|LEX|YACC|(C|CXX|CPP|F|FC|LD|AS|AR|L|Y|OBJC)FLAGS|LDLIBS"
        "|COMPILER_PATH|LIBRARY_PATH|CPATH|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|OBJC_INCLUDE_PATH|CCC_OVERRIDE_OPTIONS|CL|_CL_|PKG_CONFIG"
        "|PKG_CONFIG_(PATH|LIBDIR|SYSROOT_DIR)|CMAKE_(TOOLCHAIN_FILE|PREFIX_PATH|GENERATOR|[A-Z]+_COMPILER|[A-Z]+_COMPILER_LAUNCHER"
        "|[A-Z]+_LINKER_LAUNCHER)|CONFIG_SHELL|CONFIG_SITE|ACLOCAL_PATH",
        "CCACHE_|SCCACHE_|DISTCC_",
    ),
    _Family(
        "a program runs what it names",
        "EDITOR|VISUAL|PAGER|BROWSER|LESS|LESSOPEN|LESSCLOSE|LESSKEY(IN)?(_SYSTEM|_CONTENT)?|MANPAGER|MANOPT|HGEDITOR|HGMERGE|HGRCPATH"
        "|HGPLAIN|SVN_SSH|SVN_EDITOR|CVS_RSH|RSYNC_RSH|RSYNC_CONNECT_PROG|TAR_OPTIONS|TAPE|RSH|FZF_DEFAULT_(COMMAND|OPTS)|PARALLEL"
        "|PARALLEL_SHELL|TF_CLI_ARGS(_[a-z]+)?|TF_CLI_CONFIG_FILE|WGETRC|SYSTEM_WGETRC|CURL_HOME|SCREENRC|GNUPGHOME"
        # The files of psql and SQL*Plus run commands; plugins of the others are programs and libraries.
        "|PSQLRC|SQLPATH|ORACLE_PATH|HELM_(PLUGINS|BIN|(DATA|CONFIG|CACHE)_HOME|(REPOSITORY|REGISTRY)_CONFIG)|KUBECTL_EXTERNAL_DIFF"
        "|LIBMYSQL_PLUGINS|LIBMYSQL_PLUGIN_DIR|TF_PLUGIN_CACHE_DIR|PACKER_PLUGIN_PATH|IRBRC|PRYRC"
        "|.*_(PRELOAD|ASKPASS|WRAPPER|EDITOR|PAGER)",
    ),
    _Family(
        "it decides whom programs trust for the code that they fetch",
        "SSL_CERT_FILE|SSL_CERT_DIR|SSLKEYLOGFILE|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|AWS_CA_BUNDLE",
    ),
)


class _Rule(NamedTuple):
    obeyed_by: str
    steers: re.Pattern[str]
    harmless: re.Pattern[str]


def _rule(family: _Family) -> _Rule:
    owned = rf"(?:{family.owned}).*" if family.owned else "(?!)"
    return _Rule(family.obeyed_by, re.compile(f"(?:{family.names or '(?!)'})|{owned}"), re.compile(family.but_for or "(?!)"))


def _without_descriptions(rule: _Rule) -> _Rule:
    return rule._replace(harmless=re.compile(f"{_DESCRIPTIONS.pattern}|{rule.harmless.pattern}"))


_RULES: Final = (*map(_without_descriptions, map(_rule, _DESCRIBED)), *map(_rule, _WHOLE))


def obeyed_by(name: str) -> str | None:
    """Return who obeys the variable of that name, and how; None if it steers nothing."""
    for rule in _RULES:
        if rule.steers.fullmatch(name) is not None and rule.harmless.fullmatch(name) is None:
            return rule.obeyed_by
    return None
