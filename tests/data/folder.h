#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/data/source.h"

namespace accrue::data::testing {

inline constexpr std::int64_t mebibyte = 1 << 20;

/// A folder that is removed at the end of the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "accrue_data_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    root_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& root() const { return root_; }
  std::string path(const std::string& name) const { return (root_ / name).string(); }

  std::string write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path root_;
};

/// `ids` as the bytes of an array of Token.
template <class Token>
std::string packed(const std::vector<std::int64_t>& ids) {
  std::string bytes;
  for (const std::int64_t id : ids) {
    const auto token = static_cast<Token>(id);
    bytes.append(reinterpret_cast<const char*>(&token), sizeof token);
  }
  return bytes;
}

/// llm.c's header: 256 int32.
inline std::string header(std::int64_t magic, std::int64_t version, std::int64_t count) {
  std::vector<std::int64_t> words(256);
  words[0] = magic;
  words[1] = version;
  words[2] = count;
  return packed<std::int32_t>(words);
}

/// 0, 7, 14, ... below `vocab`: adjacent ids differ, so a shift is visible.
inline std::vector<std::int64_t> counting_ids(std::int64_t count, std::int64_t vocab) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(7 * i % vocab);
  return ids;
}

inline std::unique_ptr<Source> open(const std::string& glob, std::int64_t context,
                                    std::optional<Format> format = {}, std::int64_t vocab = 0) {
  return open_source({.globs = {glob}, .format = format, .context = context, .vocab = vocab},
                     "data.train");
}

inline batch::MicroBatch fetch(const Source& source, const std::vector<std::int64_t>& indices) {
  return source.fetch(indices);
}

inline std::vector<std::int64_t> values(const at::Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<std::int64_t>();
  return {data, data + tensor.numel()};
}

}  // namespace accrue::data::testing
