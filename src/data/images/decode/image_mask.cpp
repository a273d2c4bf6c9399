#include "data/images/decode/image_mask.h"

#include <algorithm>
#include <map>
#include <set>

#include "accrue/core/error.h"
#include "data/images/decode/png_decode.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* masks_key = "data.masks";

/// Masks by the name of their file, without suffix.
struct NamedMasks {
  std::map<std::string, std::vector<fs::path>> by_name;
  std::set<std::string> folders;  ///< names of the folders that they lie in
};

std::string folder_name(const fs::path& file) { return file.parent_path().filename().string(); }

NamedMasks by_name(const std::vector<fs::path>& masks) {
  NamedMasks named;
  for (const fs::path& mask : masks) {
    named.by_name[mask.stem().string()].push_back(mask);
    named.folders.insert(folder_name(mask));
  }
  return named;
}

/// The masks that may be an image's: those of its name; if a folder of masks has the name of its
/// folder, only those in there. An image matched by the masks' patterns is not its own mask.
std::vector<fs::path> masks_for(const fs::path& image, const NamedMasks& named) {
  const auto found = named.by_name.find(image.stem().string());
  if (found == named.by_name.end()) return {};
  std::vector<fs::path> masks = found->second;
  std::erase(masks, image);
  if (named.folders.contains(folder_name(image)))
    std::erase_if(masks,
                  [&](const fs::path& mask) { return folder_name(mask) != folder_name(image); });
  return masks;
}

void require_masks(const std::vector<fs::path>& without_mask, std::size_t images) {
  if (without_mask.empty()) return;
  const std::string first = without_mask.front().string();
  throw usage_error(masks_key, "a mask (NAME.png) for each image of data.train and data.val",
                    without_mask.size() == 1
                        ? "none for " + first
                        : "none for " + std::to_string(without_mask.size()) + " of " +
                              std::to_string(images) + " images, the first being " + first,
                    "patterns of images that have masks, or data.exclude for those that have none");
}

}  // namespace

std::string why_no_mask(std::span<const std::byte> encoded) {
  if (!is_png(encoded)) return "no PNG";
  if (!image_shape_of(encoded)) return "a PNG whose header is damaged or too large";
  return png_holds_numbers(encoded) ? "" : "a PNG in colour, with alpha or of 16 bits";
}

std::string decode_mask(std::span<const std::byte> encoded, DecodedImage& mask) {
  std::string problem = why_no_mask(encoded);
  if (!problem.empty()) return "it is " + problem;
  const ImageShape shape = image_shape_of(encoded).value();
  mask.shape = {1, shape.height, shape.width};
  mask.in_planes = true;
  resize_without_copy(mask.bytes, static_cast<std::size_t>(shape.height * shape.width));
  return decode_png_numbers(encoded, mask.bytes);
}

std::vector<fs::path> masks_of(const std::vector<fs::path>& images,
                               const std::vector<fs::path>& masks) {
  const NamedMasks named = by_name(masks);
  std::vector<fs::path> found, without_mask;
  std::set<fs::path> taken;
  for (const fs::path& image : images) {
    const std::vector<fs::path> candidates = masks_for(image, named);
    if (candidates.empty()) {
      without_mask.push_back(image);
      continue;
    }
    const fs::path& mask = candidates.front();
    if (candidates.size() > 1)
      throw usage_error(masks_key, "one mask for each image",
                        mask.string() + " and " + candidates[1].string() + " for " + image.string(),
                        "patterns that match one of them, or folders called as the images' are");
    if (!taken.insert(mask).second)
      throw usage_error(masks_key, "a mask of its own for each image of data.train and data.val",
                        mask.string() + " for " + image.string() + " and for another of that name",
                        "names that differ, or folders of masks called as the images' are");
    found.push_back(mask);
  }
  require_masks(without_mask, images.size());
  return found;
}

}  // namespace accrue::data
