#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "accrue/data/source.h"

namespace accrue::data {

/// The files for `names`, in that order. A name is a file; a folder, for all files in it and below
/// with an image suffix, sorted, without hidden ones and without following links; or a pattern as
/// in SourceOptions::globs. Throws a usage Error of the operation `what` if a name matches nothing,
/// or a folder has no images.
std::vector<std::filesystem::path> find_images(const std::vector<std::string>& names,
                                               const std::string& what);

/// One image as a model reads it, or why it cannot be read.
struct ReadImage {
  at::Tensor values;    ///< fp32 [C, H, W]
  std::string failure;  ///< empty if there are values
};

/// Reads a PNG or JPEG file and resizes it to `shape`, by the rules of open_source(). Throws
/// nothing for a file that is missing, damaged or not an image.
ReadImage read_image(const std::filesystem::path& file, const ImageShape& shape);

}  // namespace accrue::data
