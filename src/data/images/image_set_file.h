#pragma once

#include <filesystem>

namespace accrue::data {

/// Whether a file whose suffix does not say so holds images, or the labels of images: CIFAR's
/// records in a .bin file, or idx. It looks at the file's size, its header and its first labels. A
/// file that cannot be read holds none.
bool is_image_set_file(const std::filesystem::path& path);

}  // namespace accrue::data
