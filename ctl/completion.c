/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Completion scripts, made from the table of commands.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

static void print_bash(void)
{
    size_t count;
    const struct mtr_command *c = mtr_commands(&count);
    printf("# bash completion for metralectl: source <(metralectl completion bash)\n"
           "_metralectl() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]}\n"
           "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
           "        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < count; i++)
        printf("%s%s", i ? " " : "", c[i].name);
    printf(
        "' -- \"$word\"))\n"
        "    elif [[ $word == --* ]]; then\n"
        "        COMPREPLY=($(compgen -W \"$(metralectl \"${COMP_WORDS[1]}\" --help 2>/dev/null |\n"
        "            grep -o '^  --[a-z-]*')\" -- \"$word\"))\n"
        "    elif [ \"${COMP_WORDS[1]}\" = circuit ] && [ \"$COMP_CWORD\" = 2 ]; then\n"
        "        COMPREPLY=($(compgen -W 'show plan memory precision' -- \"$word\"))\n"
        "    elif [ \"${COMP_WORDS[1]}\" = kernels ] && [ \"$COMP_CWORD\" = 2 ]; then\n"
        "        COMPREPLY=($(compgen -W 'list show closure' -- \"$word\"))\n"
        "    elif [ \"${COMP_WORDS[1]}\" = bench ] && [ \"$COMP_CWORD\" = 2 ]; then\n"
        "        COMPREPLY=($(compgen -W 'run list history' -- \"$word\"))\n"
        "    else\n"
        "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
        "    fi\n"
        "}\n"
        "complete -o filenames -F _metralectl metralectl\n");
}

static void print_zsh(void)
{
    size_t count;
    const struct mtr_command *c = mtr_commands(&count);
    printf("#compdef metralectl\n"
           "_metralectl() {\n"
           "    local -a commands\n"
           "    commands=(\n");
    for (size_t i = 0; i < count; i++)
        printf("        '%s:%s'\n", c[i].name, c[i].summary);
    printf("    )\n"
           "    if (( CURRENT == 2 )); then\n"
           "        _describe command commands\n"
           "    elif [[ $words[CURRENT] == --* ]]; then\n"
           "        compadd -- ${(f)\"$(metralectl $words[2] --help 2>/dev/null | grep -o '^  "
           "--[a-z-]*' |\n"
           "            tr -d ' ')\"}\n"
           "    else\n"
           "        _files\n"
           "    fi\n"
           "}\n"
           "_metralectl \"$@\"\n");
}

int mtr_ctl_completion(int argc, char **argv)
{
    struct mtr_error error = {0};
    if (argc == 2 && strcmp(argv[1], "bash") == 0) {
        print_bash();
    } else if (argc == 2 && strcmp(argv[1], "zsh") == 0) {
        print_zsh();
    } else if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        return mtr_ctl_help(argv[0], NULL, 0);
    } else {
        mtr_fail(&error, MTR_INVALID, "for which shell? bash or zsh");
        return mtr_ctl_error(argv[0], &error);
    }
    return 0;
}
