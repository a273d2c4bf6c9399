#include "data/images/sets/image_files.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "accrue/core/error.h"
#include "data/files/glob.h"
#include "data/files/suffix.h"
#include "data/images/decode/image_file.h"
#include "data/images/transform/image_fit.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> images_below(const fs::path& folder, const std::string& what) {
  std::vector<fs::path> found = files_below(folder, what);
  std::erase_if(found, [](const fs::path& file) { return !has_image_suffix(file); });
  if (found.empty())
    throw usage_error(what, "images (.png, .jpg, .jpeg)", "none in the folder " + folder.string(),
                      "another folder, or the names of files");
  return found;
}

std::string decode(const fs::path& path, DecodedImage& image) {
  const FilePool file({path}, "read an image");
  if (image_file_header(file, 0)) return decode_image_file(file, 0, image);
  const std::string other = other_image_file_format(file, 0);
  return other.empty() ? "no image that can be read (PNG or JPEG)"
                       : "no PNG or JPEG that can be read, but " + other;
}

}  // namespace

std::vector<fs::path> find_images(const std::vector<std::string>& names, const std::string& what) {
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    std::error_code ignored;
    const std::vector<fs::path> found =
        fs::is_directory(name, ignored) ? images_below(name, what) : expand_globs({name}, what);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

ReadImage read_image(const fs::path& file, const ImageShape& shape) {
  std::vector<std::uint8_t> planes(
      static_cast<std::size_t>(shape.channels * shape.height * shape.width));
  try {
    DecodedImage image;
    std::string failure = decode(file, image);
    if (!failure.empty()) return {.values = {}, .failure = std::move(failure)};
    fit_image(image, shape, planes);
  } catch (const Error& error) {
    return {.values = {}, .failure = error.received()};
  }
  at::Tensor values = at::empty({shape.channels, shape.height, shape.width}, at::kFloat);
  normalise_image(planes, values.mutable_data_ptr<float>());
  return {.values = std::move(values), .failure = {}};
}

}  // namespace accrue::data
