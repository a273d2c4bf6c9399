#include "data/images/decode/jpeg_decode.h"

#include <csetjmp>
#include <cstdio>
// jpeglib.h needs the types of cstdio before it.
#include <jpeglib.h>

namespace accrue::data {
namespace {

/// A progressive file can ask for any number of passes over all of its pixels.
constexpr int kMostScans = 200;

/// All coefficients of a progressive file are held at once.
constexpr long kMostBytes = 1L << 30;

/// The library leaves a function by longjmp after an error, so functions that run in it (`attempt`)
/// hold nothing that has to be destroyed.
struct Session {
  jpeg_error_mgr errors{};
  jpeg_decompress_struct image{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = {};
  const unsigned char* encoded = nullptr;
  unsigned long encoded_bytes = 0;
  unsigned char* rows = nullptr;
};

Session& session_of(j_common_ptr image) { return *static_cast<Session*>(image->client_data); }

[[noreturn]] void leave(j_common_ptr image) {
  image->err->format_message(image, session_of(image).message);
  std::longjmp(session_of(image).escape, 1);
}

void judge_message(j_common_ptr image, int level) {
  constexpr int warning = -1;
  if (level == warning) leave(image);
}

void count_scans(j_common_ptr image) {
  if (session_of(image).image.input_scan_number <= kMostScans) return;
  std::snprintf(session_of(image).message, JMSG_LENGTH_MAX, "more than %d scans", kMostScans);
  std::longjmp(session_of(image).escape, 1);
}

void read_header(Session& session) {
  jpeg_mem_src(&session.image, session.encoded, session.encoded_bytes);
  jpeg_read_header(&session.image, TRUE);
}

/// Call it after read_header().
void read_rows(Session& session) {
  session.image.out_color_space = session.image.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&session.image);
  const std::size_t row_bytes = std::size_t{session.image.output_width} *
                                static_cast<std::size_t>(session.image.output_components);
  while (session.image.output_scanline < session.image.output_height) {
    JSAMPROW row = session.rows + row_bytes * session.image.output_scanline;
    jpeg_read_scanlines(&session.image, &row, 1);
  }
  jpeg_finish_decompress(&session.image);
}

/// Returns false if `work` failed; the session's message gives the reason.
bool attempt(Session& session, void (*work)(Session&)) {
  if (setjmp(session.escape) != 0) return false;
  work(session);
  return true;
}

/// A decoder of these bytes, which owns its memory.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> encoded) {
    session_.image.err = jpeg_std_error(&session_.errors);
    session_.errors.error_exit = leave;
    session_.errors.emit_message = judge_message;
    session_.image.client_data = &session_;
    session_.encoded = reinterpret_cast<const unsigned char*>(encoded.data());
    session_.encoded_bytes = encoded.size();
    made_ = attempt(session_, [](Session& session) { jpeg_create_decompress(&session.image); });
    if (made_) session_.image.mem->max_memory_to_use = kMostBytes;
    session_.progress.progress_monitor = count_scans;
    session_.image.progress = &session_.progress;
  }
  ~Decoder() { jpeg_destroy_decompress(&session_.image); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  bool run(void (*work)(Session&)) { return made_ && attempt(session_, work); }
  Session& session() { return session_; }

 private:
  Session session_;
  bool made_ = false;
};

/// Whether the colours are these, and not the four inks for print.
bool is_grey_or_rgb(const jpeg_decompress_struct& image) {
  return image.num_components == 1 || image.num_components == 3;
}

}  // namespace

bool is_jpeg(std::span<const std::byte> encoded) {
  return encoded.size() >= 2 && encoded[0] == std::byte{0xff} && encoded[1] == std::byte{0xd8};
}

std::optional<ImageHeader> jpeg_header(std::span<const std::byte> encoded,
                                       std::uint32_t most_pixels_a_side) {
  Decoder decoder(encoded);
  if (!decoder.run(read_header)) return std::nullopt;
  const jpeg_decompress_struct& image = decoder.session().image;
  if (image.image_width > most_pixels_a_side || image.image_height > most_pixels_a_side ||
      !is_grey_or_rgb(image))
    return std::nullopt;
  const ImageShape shape{image.num_components, image.image_height, image.image_width};
  const std::int64_t pixels = shape.channels * shape.height * shape.width;
  // The library holds all coefficients of a progressive file, 16 bits each.
  return ImageHeader{.shape = shape,
                     .decoding_bytes = image.progressive_mode == TRUE ? 3 * pixels : pixels};
}

std::string decode_jpeg(std::span<const std::byte> encoded, const ImageShape& shape,
                        std::span<std::uint8_t> interleaved) {
  Decoder decoder(encoded);
  Session& session = decoder.session();
  if (!decoder.run(read_header)) return session.message;
  const jpeg_decompress_struct& image = session.image;
  const ImageShape found{image.num_components, image.image_height, image.image_width};
  if (found != shape || std::ssize(interleaved) != shape.channels * shape.height * shape.width)
    return "another shape";
  session.rows = interleaved.data();
  return decoder.run(read_rows) ? "" : session.message;
}

}  // namespace accrue::data
