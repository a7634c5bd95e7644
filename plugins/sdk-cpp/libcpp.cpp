// How does a failure inside the C++ library reach the plugin's author? `std::vector::at` and its
// like end in these, which without them would print to standard error.
#include <cstdarg>
#include <cstdio>
#include <exception>
#include <new>

#include "tandem.h"

_LIBCPP_BEGIN_NAMESPACE_STD
[[noreturn]] void __libcpp_verbose_abort(const char *format, ...) noexcept {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tandem_fail("%s", text);
}

[[noreturn]] void terminate() noexcept {
    tandem_fail("std::terminate was called");
}
_LIBCPP_END_NAMESPACE_STD

void *operator new(std::size_t size) {
    void *block = std::malloc(size == 0 ? 1 : size);
    if (block == nullptr) tandem_fail("out of memory: %zu bytes asked for", size);
    return block;
}

void operator delete(void *block) noexcept {
    std::free(block);
}

void operator delete(void *block, std::size_t) noexcept {
    std::free(block);
}

extern "C" [[noreturn]] void __cxa_pure_virtual() {
    tandem_fail("a pure virtual function was called");
}
