// Tells a test what it was started with: telling_program STATUS|wait [WORD...]. Ends with the
// status, or by a signal.
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>

int main(int count, char** words) {
  // The kernel draws it for each program that it loads; a fork has its parent's.
  const auto* drawn = reinterpret_cast<const unsigned long*>(::getauxval(AT_RANDOM));
  std::cout << "loaded " << *drawn << "\nparent " << ::getppid() << "\nfolder "
            << std::filesystem::current_path().string() << '\n';
  for (int i = 0; i < count; ++i) std::cout << "word " << words[i] << '\n';
  for (const char* name : {"RANK", "LD_PRELOAD", "ACCRUE_LOADED_PROGRAM", "OMP_NUM_THREADS"})
    if (const char* value = std::getenv(name)) std::cout << name << ' ' << value << '\n';
  std::cerr << "an error\n";
  while (count > 1 && words[1] == std::string_view("wait")) ::pause();
  return count > 1 ? std::atoi(words[1]) : 0;
}
