#include "core/loaded_libraries.h"

#include <gmock/gmock.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "support/skip.h"

namespace accrue {
namespace {

using ::testing::MatchesRegex;

TEST(LoadedLibraries, NameTheProgramAndWhatItRunsOn) {
  const auto libraries = loaded_libraries();
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").filename().string();
  ASSERT_TRUE(libraries.contains(program));
  ASSERT_TRUE(libraries.contains("libc.so.6"));
  for (const auto& [name, id] : libraries)
    EXPECT_THAT(id, MatchesRegex("[0-9a-f]+|[0-9]+ bytes")) << name;
  EXPECT_EQ(loaded_libraries(), libraries);
}

/// The output of `command`.
std::string output_of(const std::string& command) {
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) text += part.data();
  ::pclose(pipe);
  return text;
}

/// binutils reads the file and not its mapping.
TEST(LoadedLibraries, HaveTheBuildIdThatReadelfShows) {
  const std::string shown =
      output_of("readelf -n /proc/" + std::to_string(::getpid()) + "/exe 2>&1");
  const std::string label = "Build ID: ";
  const std::size_t at = shown.find(label);
  if (at == std::string::npos)
    return accrue::testing::not_possible_here("readelf shows no build ID of this program");
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").filename().string();
  const std::string id = shown.substr(at + label.size(), shown.find('\n', at) - at - label.size());
  EXPECT_EQ(loaded_libraries().at(program), id);
}

TEST(LoadedLibraries, TellWhichOneASymbolLiesIn) {
  EXPECT_EQ(library_of(reinterpret_cast<const void*>(&output_of)),
            std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_EQ(library_of(reinterpret_cast<const void*>(&::gnu_get_libc_version)).filename(),
            "libc.so.6");
  EXPECT_FALSE(own_library("libaccrue_of_nobody.so"));
}

/// A program that is started by its name alone knows its folder.
TEST(LoadedLibraries, AreLookedForBesideAProgramOfPath) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string name = program.filename().string();
  EXPECT_THAT(output_of("cd / && PATH=" + program.parent_path().string() + ":$PATH " + name +
                        " --gtest_filter=*TellWhichOneASymbolLiesIn"),
              ::testing::HasSubstr("PASSED  ] 1 test"));
}

}  // namespace
}  // namespace accrue
