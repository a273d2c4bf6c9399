#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "accrue/data/source.h"
#include "data/files/file_pool.h"
#include "data/images/decode/image_decode.h"

namespace accrue::data {

/// The header in the file's first bytes; it reads up to 16 MiB if the header is preceded by much
/// else. None if it is not an image that can be read.
std::optional<ImageHeader> image_file_header(const FilePool& files, std::size_t file);

/// The same if there must be one: throws a usage Error of the operation `what` that names the file
/// and what it is instead.
ImageHeader require_image_header(const FilePool& files, std::size_t file, const std::string& what);

/// The one that uses more bytes.
Decoding larger(Decoding a, Decoding b);
/// Source::decoding() of one file with that header.
Decoding decoding_of(const FilePool& files, std::size_t file, const ImageHeader& header);

/// other_image_format() of the file's first bytes.
std::string other_image_file_format(const FilePool& files, std::size_t file);

/// Reads and decodes the whole file, as decode_image() does. Throws as FilePool::read() does.
std::string decode_image_file(const FilePool& files, std::size_t file, DecodedImage& image);

/// why_no_mask() of the file's first bytes.
std::string why_no_mask_file(const FilePool& files, std::size_t file);

/// Reads and decodes the whole file, as decode_mask() does. Throws as FilePool::read() does.
std::string decode_mask_file(const FilePool& files, std::size_t file, DecodedImage& mask);

}  // namespace accrue::data
