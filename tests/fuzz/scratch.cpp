#include "scratch.h"

#include <unistd.h>

#include <fstream>

namespace accrue::fuzz {

std::filesystem::path scratch(const std::string& name) {
  static const std::filesystem::path folder = [] {
    auto made =
        std::filesystem::temp_directory_path() / ("accrue-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directories(made);
    return made;
  }();
  return folder / name;
}

std::filesystem::path put(const std::string& name, Input content) {
  const std::filesystem::path path = scratch(name);
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text_of(content);
  file.close();
  expect(bool(file), "the scratch folder can be written");
  return path;
}

}  // namespace accrue::fuzz
