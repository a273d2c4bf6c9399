#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "accrue/core/long_operation.h"
#include "accrue/train/config.h"

namespace accrue::train {

struct TokenFile {
  std::filesystem::path path;
  std::int64_t tokens = 0;
};

/// The files that write_token_files() wrote.
struct TokenFiles {
  std::vector<TokenFile> files;
  std::int64_t vocab = 0;  ///< the tokenizer's
};

/// Writes `out`/train.bin and, if the config has held-out data, `out`/val.bin: the tokens of its
/// text or of the text in its JSON lines, by data.tokenizer (data::write_token_file()). For text
/// files, training on them with the same model.context uses the same samples as training on the
/// text; what does not fill a sample is left out, as there. JSON lines are concatenated. The folder
/// is created if it does not exist. Throws a usage Error if it holds such a file already, if a
/// pattern of the config's data would match one, or if the data are not text; if one of the files
/// fails, neither stays.
TokenFiles write_token_files(Config config, const std::filesystem::path& out,
                             const ShowProgress& show);

}  // namespace accrue::train
