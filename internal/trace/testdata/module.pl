use Mail::Nowhere;
