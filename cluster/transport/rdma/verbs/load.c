//go:build verbs && cgo && linux

#include "library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

static void sv_say(char *text, size_t text_bytes, const char *what)
{
	snprintf(text, text_bytes, "%s", what ? what : "unknown error");
}

int sv_load(const char *name, struct sv_library **out, char *text, size_t text_bytes)
{
	struct sv_library *l = calloc(1, sizeof *l);
	if (!l) {
		sv_say(text, text_bytes, "out of memory");
		return ENOMEM;
	}
	l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!l->handle) {
		sv_say(text, text_bytes, dlerror());
		free(l);
		return ENOENT;
	}
	const char *missing = NULL;
#define SV_LOOK_UP(function)                                     \
	l->function = (__typeof__(l->function))dlsym(l->handle, #function); \
	if (!l->function)                                        \
		missing = #function;
	SV_OPTIONAL(SV_LOOK_UP)
	missing = NULL;
	SV_FUNCTIONS(SV_LOOK_UP)
#undef SV_LOOK_UP
	if (missing) {
		snprintf(text, text_bytes, "%s has no function %s", name, missing);
		sv_unload(l);
		return ENOENT;
	}
	*out = l;
	return 0;
}

void sv_unload(struct sv_library *l)
{
	dlclose(l->handle);
	free(l);
}

int sv_never_block(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? sv_failed() : 0;
}
