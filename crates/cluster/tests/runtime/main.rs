fn main(){}
#[test] fn nothing(){}