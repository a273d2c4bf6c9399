// Tells a test what it was started with: telling_program STATUS|wait [WORD...]. Ends with the
// status, or by a signal. As accrue does (apps/accrue/bounded_spinning.cpp), it begins anew with
// one variable more, before any library's constructor has run.
#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>

namespace {

constexpr int kDescriptors = 1024;
constexpr const char* kAdded = "GOMP_ADDED=1";

void begin_anew(int /*count*/, char** words, char** environment) {
  static std::array<char*, 4096> extended{};
  static std::array<char, 4096> program{};
  std::size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (environment[count] == std::string_view(kAdded)) return;
    extended[count] = environment[count];
  }
  extended[count] = const_cast<char*>(kAdded);
  if (::readlink("/proc/self/exe", program.data(), program.size() - 1) > 0)
    ::execve(program.data(), words, extended.data());
}

using BeforeLibraries = void (*)(int, char**, char**);
[[gnu::section(".preinit_array"), gnu::used]] const BeforeLibraries at_the_beginning = begin_anew;

}  // namespace

int main(int count, char** words) {
  namespace fs = std::filesystem;
  // The kernel draws it for each program that it loads; a fork has its parent's.
  const auto* drawn = reinterpret_cast<const unsigned long*>(::getauxval(AT_RANDOM));
  std::cout << "loaded " << *drawn << "\nprocess " << ::getpid() << "\nparent " << ::getppid()
            << "\nprogram " << fs::read_symlink("/proc/self/exe").string() << "\nfolder "
            << fs::current_path().string() << "\ndescriptors";
  for (int file = STDERR_FILENO + 1; file < kDescriptors; ++file)
    if (::fcntl(file, F_GETFD) >= 0) std::cout << ' ' << file;
  std::cout << '\n';
  for (int i = 0; i < count; ++i) std::cout << "word " << words[i] << '\n';
  for (char** variable = environ; *variable != nullptr; ++variable)
    std::cout << "variable " << *variable << '\n';
  std::cout.flush();
  std::cerr << "an error\n";
  while (count > 1 && words[1] == std::string_view("wait")) ::pause();
  return count > 1 ? std::atoi(words[1]) : 0;
}
