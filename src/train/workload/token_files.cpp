#include "train/workload/token_files.h"

#include <algorithm>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "core/words.h"
#include "data/files/glob_parts.h"
#include "data/text/tokens/write_token_file.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* tokenizing = "tokenize";

void expect_room_in(const fs::path& out) {
  std::error_code error;
  for (const char* name : {"train.bin", "val.bin"})
    if (fs::exists(fs::symlink_status(out / name, error)))
      throw usage_error(std::string(tokenizing) + " --out " + out.string(),
                        "a folder without token files", "one with a " + std::string(name),
                        "another --out, or removing it");
}

/// Token files that a pattern of the config matches would be trained on as text.
void expect_outside(const DataConfig& data, const fs::path& out) {
  const auto refuse = [&](const char* key, const std::vector<std::string>& globs) {
    for (const char* name : {"train.bin", "val.bin"}) {
      const fs::path file = out / name;
      const auto matches = [&](const std::string& glob) { return data::would_match(glob, file); };
      const auto glob = std::ranges::find_if(globs, matches);
      if (glob == globs.end() || std::ranges::any_of(data.exclude, matches)) continue;
      throw usage_error(
          std::string(tokenizing) + " --out " + out.string(),
          "a folder whose files are not the config's data",
          std::string(key) + " = " + in_quotes(*glob) + ", which would match " + file.string(),
          "another --out, or a narrower " + std::string(key));
    }
  };
  refuse("data.train", data.train);
  refuse("data.val", data.val);
}

void make_folder(const fs::path& out) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error)
    throw usage_error(std::string(tokenizing) + " --out " + out.string(),
                      "a folder that can be made", error.message(), "another --out");
}

void expect_text(const data::Source& source) {
  if (!source.parts().empty())
    throw usage_error(
        tokenizing, "files that are joined", "sources with weights, which no file keeps",
        "each source by itself: --data.train='[\"" + source.parts().front().name + "\"]'");
  if (source.has_text() && source.vocab() > 0) return;
  throw usage_error(tokenizing, "text, or JSON lines with text",
                    source.image_shape() ? "images" : "data that are tokens already",
                    "a config whose data.train names text");
}

}  // namespace

TokenFiles write_token_files(Config config, const fs::path& out, const ShowProgress& show) {
  expect_room_in(out);
  expect_outside(config.data, out);
  config.loss.kind = models::LossKind::lm;  // files have all tokens, whatever is learned of them
  const Datasets data = open_data(config, show);
  expect_text(*data.train);
  TokenFiles written{.files = {}, .vocab = data.train->vocab()};
  make_folder(out);
  const auto write = [&](const data::Source& source, const char* name) {
    const fs::path file = out / name;
    const std::int64_t tokens = during(show, "writing " + file.string(), [&] {
      return data::write_token_file(source, written.vocab, file, tokenizing);
    });
    written.files.push_back({file, tokens});
  };
  try {
    write(*data.train, "train.bin");
    if (data.val) write(*data.val, "val.bin");
  } catch (...) {
    std::error_code ignored;
    for (const TokenFile& file : written.files) fs::remove(file.path, ignored);
    throw;
  }
  return written;
}

}  // namespace accrue::train
