#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "accrue/data/source.h"

namespace accrue::data {

/// The files that `names` name, in that order: a file; of a folder all in it and in those below
/// whose suffix is an image's, sorted, without hidden ones and behind no links; or a pattern as
/// SourceOptions::globs. Throws a usage Error, its operation being `what`, where a name is of
/// nothing, or of a folder without images.
std::vector<std::filesystem::path> find_images(const std::vector<std::string>& names,
                                               const std::string& what);

/// One image as a model reads it, or why it cannot be.
struct ReadImage {
  at::Tensor values;    ///< fp32 [C, H, W]
  std::string failure;  ///< empty where there are values
};

/// Reads a PNG or JPEG file and brings it to `shape`, by the rules of open_source(). Throws nothing
/// for a file that is missing, no image or damaged.
ReadImage read_image(const std::filesystem::path& file, const ImageShape& shape);

}  // namespace accrue::data
